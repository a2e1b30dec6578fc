//! Reading what a guest wrote; running cells is exercised by the integration tests.

use super::*;

#[tokio::test]
async fn output_is_there_before_the_runtime_has_heard_of_it() {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let reader = pipe::Receiver::from_owned_fd(reader).unwrap();
    // Nothing is awaited from here on, so the runtime has no occasion to look.
    let mut bytes = Vec::with_capacity(16);
    assert_eq!(read_waiting(&reader, &mut bytes), 0);
    rustix::io::write(&writer, b"printed").unwrap();
    assert_eq!(read_waiting(&reader, &mut bytes), 7);
    assert_eq!(bytes, b"printed");
    drop(writer);
    assert_eq!(read_waiting(&reader, &mut bytes), 0);
}
