//! Tests of `crates/server`: the real binary, called over its socket.

mod branching;
mod budgets;
mod cells;
mod commands;
mod contract;
mod e2b;
mod faults;
mod files;
mod interpret;
mod keys;
mod network;
mod openapi;
mod ports;
mod processors;
mod secrets;
mod startup;
mod starving;
mod templates;
mod tls;
mod transfers;

use crate::harness::server::TestServer;

#[test]
fn it_works() {
    let server = TestServer::new();
    server.assert_works();
    let sandbox = server.sandbox();
    sandbox.run("a = 1");
    assert_eq!(sandbox.print("print(a + 1)"), "2");
    sandbox.client.delete(&sandbox.path).expect(204);
    sandbox.assert_ends("deleted");
}
