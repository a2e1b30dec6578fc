//! What is read of a notebook, and what is written into one.

use serde_json::{Value, json};
use silica_domain::{Bundle, CellError, Payload};

use super::{CellOutputs, Notebook};

fn parse(document: &Value) -> anyhow::Result<Notebook> {
    Notebook::parse(document.to_string().as_bytes(), "n.ipynb")
}

#[test]
fn code_cells_are_read_in_order() {
    let notebook = parse(&json!({
        "nbformat": 4, "nbformat_minor": 5, "metadata": {},
        "cells": [
            {"cell_type": "markdown", "source": ["# title"], "metadata": {}},
            {"cell_type": "code", "source": ["a = 1\n", "a"], "metadata": {}, "outputs": []},
            {"cell_type": "code", "source": "  \n", "metadata": {}},
            {"cell_type": "raw", "source": "raw", "metadata": {}},
            {"cell_type": "code", "source": "1/0", "metadata": {"tags": ["raises-exception"]}},
        ],
    }));
    let cells = notebook.unwrap().code_cells();
    let shown: Vec<_> =
        cells.iter().map(|cell| (cell.index, cell.code.as_str(), cell.may_fail)).collect();
    assert_eq!(shown, [(1, "a = 1\na", false), (4, "1/0", true)]);
}

/// A file made by hand may lack what the format wants.
#[test]
fn a_notebook_without_metadata_is_python() {
    for metadata in [None, Some(json!(null)), Some(json!(7)), Some(json!({"kernelspec": []}))] {
        let mut document = json!({
            "nbformat": 4, "cells": [{"cell_type": "code", "source": "1"}],
        });
        if let Some(metadata) = &metadata {
            document["metadata"] = metadata.clone();
        }
        let cells = parse(&document).unwrap().code_cells();
        assert_eq!(cells.len(), 1, "{metadata:?}");
        assert_eq!(cells[0].code, "1");
    }
}

#[test]
fn what_is_no_python_notebook_is_refused_with_a_reason() {
    let refused = [
        ("[]", "not a JSON object"),
        ("{", "not JSON"),
        ("{}", "format 4"),
        (r#"{"nbformat": 3, "worksheets": []}"#, "nbconvert"),
        (r#"{"nbformat": 4, "metadata": {}}"#, "no list of cells"),
        (r#"{"nbformat": 4, "metadata": {}, "cells": [1]}"#, "not an object"),
        (r#"{"nbformat": 4, "metadata": {"kernelspec": {"language": "R"}}, "cells": []}"#, "\"R\""),
    ];
    for (text, reason) in refused {
        let error = Notebook::parse(text.as_bytes(), "n.ipynb").unwrap_err();
        assert!(format!("{error:#}").contains(reason), "{text}: {error:#}");
    }
}

/// Whatever a guest prints or shows stays a string in its place.
#[test]
fn hostile_output_stays_in_its_place() {
    let payload = |mime: &str, data: &[u8]| Payload { mime: mime.to_owned(), data: data.to_vec() };
    let mut outputs = CellOutputs::default();
    outputs.stream("stdout", b"\"}], \"cells\": [\xff\x00");
    outputs.stream("stdout", b"\x1b[31m");
    outputs.result(&Bundle {
        main: true,
        payloads: vec![
            payload("application/json", b"{not json"),
            payload("image/png", b"\x89PNG"),
            payload("text/html", b"</script>"),
            payload("a\"b", b"x"),
        ],
        metadata: "[1]".to_owned(),
        display: None,
    });
    outputs.error(&CellError {
        name: "E\"".to_owned(),
        value: "\u{2028}".to_owned(),
        traceback: vec!["\0".to_owned()],
    });
    let mut notebook = Notebook::of_code("x");
    notebook.set_outputs(0, 7, outputs);
    let file = tempfile::tempdir().unwrap();
    let path = file.path().join("n.ipynb");
    notebook.save(&path).unwrap();
    let saved: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(
        saved["cells"][0]["outputs"],
        json!([
            {"output_type": "stream", "name": "stdout",
             "text": "\"}], \"cells\": [\u{fffd}\0\u{1b}[31m"},
            {"output_type": "execute_result", "execution_count": 7, "metadata": {}, "data": {
                "application/json": "{not json", "image/png": "iVBORw==",
                "text/html": "</script>", "a\"b": "x"}},
            {"output_type": "error", "ename": "E\"", "evalue": "\u{2028}", "traceback": ["\0"]},
        ])
    );
    assert_eq!(std::fs::read_dir(file.path()).unwrap().count(), 1);
}
