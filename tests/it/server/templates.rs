//! Which templates a server offers.

use serde_json::json;

use crate::harness::server::TestServer;
use crate::harness::{PYTHON, SCIENCE, TestHome};

#[test]
fn what_was_built_is_offered_and_warmed_up_on_demand() {
    let home = TestHome::new(PYTHON);
    let science = TestHome::new(SCIENCE).path().join("templates").canonicalize().unwrap();
    let templates = home.path().join("templates");
    let python = templates.canonicalize().unwrap();
    std::fs::remove_file(&templates).unwrap();
    std::fs::create_dir(&templates).unwrap();
    for (home, name) in [(python, PYTHON), (science, SCIENCE)] {
        std::os::unix::fs::symlink(home.join(name), templates.join(name)).unwrap();
    }
    std::fs::create_dir_all(templates.join("damaged/current")).unwrap();
    let server = TestServer::over(home, Vec::new(), None);
    let offered = server.admin.get("/v1/templates").expect(200).json();
    let names: Vec<_> =
        offered["templates"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, [PYTHON, SCIENCE]);
    for _ in 0..2 {
        let body = json!({"template": SCIENCE, "code": "import pandas; print(len(pandas.DataFrame({'a': [1]})))"});
        let ran = server.admin.post("/v1/run", &body).expect(200).json();
        assert_eq!(ran["stdout"], "1\n", "{ran}");
    }
    let unknown = server.admin.post("/v1/run", &json!({"template": "absent", "code": "1"}));
    assert_eq!(unknown.problem().0, 404);
}
