//! Messages of a report socket, and the search for a program.

use super::*;

fn parse(packet: &[u8]) -> io::Result<Word> {
    let (ours, theirs) = report().unwrap();
    protocol::send_bytes(&theirs, packet, &[]).unwrap();
    hear(&ours)
}

#[test]
fn messages_arrive_as_they_were_sent() {
    let (ours, theirs) = report().unwrap();
    assert_eq!(hear(&ours).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let file = tempfile::tempfile().unwrap();
    send_report(&theirs, &ReportMessage::Entered { process_id: 7 }, &[file.as_fd()]).unwrap();
    send_report(&theirs, &ReportMessage::Refused { step: "enter-exec".to_owned(), errno: 2 }, &[])
        .unwrap();
    drop(theirs);
    assert!(matches!(hear(&ours), Ok(Word::Entered { process_id: 7, terminal: Some(_) })));
    let refused = hear(&ours).unwrap();
    assert!(matches!(&refused, Word::Refused { step, errno: 2 } if step == "enter-exec"));
    assert!(matches!(hear(&ours), Ok(Word::Nothing)));
}

#[test]
fn failure_report_of_the_gate_is_parsed() {
    let head = b"{\"type\":\"refused\",\"step\":\"enter-ids\",\"errno\":1}";
    let packet = [&(head.len() as u32).to_le_bytes()[..], &[0; 4], head].concat();
    let refused = parse(&packet).unwrap();
    assert!(matches!(&refused, Word::Refused { step, errno: 1 } if step == "enter-ids"));
}

#[test]
fn malformed_packets_are_errors() {
    let long = [b'x'; 4 * WORD_BYTES_MAX];
    for packet in [&b"x"[..], &[0; 8], b"12345678{}", b"12345678{\"type\":\"entered\"}", &long] {
        assert_eq!(parse(packet).unwrap_err().kind(), io::ErrorKind::InvalidData, "{packet:?}");
    }
}

#[test]
fn program_is_searched_along_the_path() {
    let environment = |text: &str| vec![CString::new("A=B").unwrap(), CString::new(text).unwrap()];
    let found = |name: &str, path: &str| -> Vec<String> {
        let found = candidates(name.as_bytes(), &environment(path));
        found.into_iter().map(|path| path.into_string().unwrap()).collect()
    };
    assert_eq!(found("ls", "PATH=/usr/bin:/bin"), ["/usr/bin/ls", "/bin/ls"]);
    assert_eq!(found("ls", "PATH=:/bin::"), ["/bin/ls"]);
    assert_eq!(found("ls", "NOPATH=/bin"), Vec::<String>::new());
    assert_eq!(found("", "PATH=/bin"), Vec::<String>::new());
    assert_eq!(found("ls", &format!("PATH={}", "/a:".repeat(1000))).len(), PATH_DIRECTORIES_MAX);
}
