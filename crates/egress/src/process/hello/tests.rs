//! Hellos in pieces.

use super::{HELLO_BYTES_MAX, Hello, HelloReader, NotHello};

fn hello(extensions: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([1; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut message = vec![1, 0];
    message.extend((body.len() as u16).to_be_bytes());
    message.extend(body);
    message
}

fn server_name(name: &[u8]) -> Vec<u8> {
    let length = name.len() as u16;
    let mut extension = vec![0, 0];
    extension.extend((length + 5).to_be_bytes());
    extension.extend((length + 3).to_be_bytes());
    extension.push(0);
    extension.extend(length.to_be_bytes());
    extension.extend(name);
    extension
}

fn records(message: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in message.chunks(length) {
        bytes.extend([22, 3, 1]);
        bytes.extend((part.len() as u16).to_be_bytes());
        bytes.extend(part);
    }
    bytes
}

fn read(bytes: &[u8]) -> Result<Option<Hello>, NotHello> {
    HelloReader::default().push(bytes)
}

fn named(name: &str) -> Hello {
    Hello { server_name: Some(name.to_owned()) }
}

#[test]
fn name_is_found_however_the_bytes_come() {
    let padding = [&[0, 21, 0x10, 0][..], &[0; 0x1000]].concat();
    let message = hello(&[padding, server_name(b"a.example")].concat());
    for record in [1, 7, 1000, 16_000] {
        let bytes = records(&message, record);
        assert_eq!(read(&bytes), Ok(Some(named("a.example"))));
        let mut reader = HelloReader::default();
        let mut hello = None;
        for byte in &bytes {
            assert_eq!(hello, None);
            hello = reader.push(&[*byte]).unwrap();
        }
        assert_eq!(hello, Some(named("a.example")));
        assert_eq!(reader.into_bytes(), bytes);
    }
}

#[test]
fn hello_without_a_name_is_read() {
    let none = Ok(Some(Hello { server_name: None }));
    assert_eq!(read(&records(&hello(&[]), 999)), none);
    // An old client, without extensions.
    let mut message = hello(&[]);
    message.truncate(message.len() - 2);
    message[3] -= 2;
    assert_eq!(read(&records(&message, 999)), none);
}

#[test]
fn what_is_no_hello_is_refused_at_its_first_bytes() {
    for bytes in
        [&b"G"[..], b"SSH-2.0", &[22, 2], &[22, 3, 1, 0, 0], &[22, 3, 1, 0x40, 1], &[23, 3, 3]]
    {
        assert!(read(bytes).is_err(), "{bytes:?}");
    }
    assert!(read(&records(&[2, 0, 0, 0], 999)).is_err());
    assert!(read(&records(&[1, 1, 0, 1], 999)).is_err(), "longer than the bound");
}

#[test]
fn malformed_hellos_are_refused() {
    let two_names = [server_name(b"a.example"), server_name(b"b.example")].concat();
    let mut list = server_name(b"a.example");
    list[3] += 3;
    list[5] += 3;
    list.extend([0, 0, 0]);
    let mut kind = server_name(b"a.example");
    kind[6] = 1;
    let not_text = server_name(&[0xff, 0xfe]);
    for extensions in [two_names, list, kind, not_text, vec![0], vec![0, 0, 0, 9]] {
        assert!(read(&records(&hello(&extensions), 9999)).is_err(), "{extensions:?}");
    }
}

#[test]
fn bytes_without_a_whole_record_are_bounded() {
    let mut reader = HelloReader::default();
    let record = records(&[1, 0, 0xff, 0xff], 4);
    reader.push(&record).unwrap();
    let part = records(&[0; 100], 100);
    let mut sent = record.len();
    while reader.push(&part).is_ok() {
        sent += part.len();
        assert!(sent <= HELLO_BYTES_MAX + part.len());
    }
}
