//! Packets and their answers.

use std::net::Ipv4Addr;

use super::{Outcome, Parsed, parse};

fn question(name: &[&[u8]], kind: u16) -> Vec<u8> {
    let mut packet = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name {
        packet.push(label.len() as u8);
        packet.extend(*label);
    }
    packet.push(0);
    packet.extend(kind.to_be_bytes());
    packet.extend([0, 1]);
    packet
}

fn code(parsed: &Parsed) -> Option<u8> {
    match parsed {
        Parsed::Answer(answer) => Some(answer[3] & 0xf),
        Parsed::Query(_) | Parsed::Drop => None,
    }
}

#[test]
fn address_is_answered_by_the_question_and_a_pointer_to_it() {
    let packet = question(&[b"Api", b"example", b"com"], 1);
    let Parsed::Query(query) = parse(&packet) else {
        panic!("a question");
    };
    assert_eq!(query.name.as_str(), "api.example.com");
    let answer = query.answer(Outcome::Address(Ipv4Addr::new(198, 18, 0, 16)));
    let mut expected = vec![0xab, 0xcd, 0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
    expected.extend(&packet[12..]);
    expected.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 0, 16]);
    assert_eq!(answer, expected);
    let refused = query.answer(Outcome::NoSuchName);
    assert_eq!((refused[3] & 0xf, refused[7]), (3, 0));
}

#[test]
fn other_types_and_classes_have_no_data() {
    let mut chaos = question(&[b"a", b"example"], 1);
    let last = chaos.len() - 1;
    chaos[last] = 3;
    for packet in [question(&[b"a", b"example"], 28), question(&[b"a", b"example"], 65), chaos] {
        let Parsed::Query(query) = parse(&packet) else {
            panic!("a question");
        };
        let answer = query.answer(Outcome::Address(Ipv4Addr::LOCALHOST));
        assert_eq!((answer[3] & 0xf, answer[7]), (0, 0));
    }
}

#[test]
fn bad_questions_are_errors() {
    let good = question(&[b"a", b"example"], 1);
    let long = [&b"a"[..]; 130];
    for packet in [
        question(&[b"a\0b", b"example"], 1),
        question(&[b"a.b", b"example"], 1),
        question(&[b"a b"], 1),
        question(&[&[b'a'; 64]], 1),
        question(&long, 1),
        question(&[], 1),
        question(&[b"127", b"0", b"0", b"1"], 1),
        [&good[..12], &[0xc0, 0x0c, 0, 1, 0, 1]].concat(),
        [&good[..12], &[3, b'a']].concat(),
        good[..good.len() - 1].to_vec(),
    ] {
        assert_eq!(code(&parse(&packet)), Some(1), "{packet:?}");
    }
}

#[test]
fn what_is_no_question_gets_no_answer() {
    let mut response = question(&[b"a", b"example"], 1);
    response[2] |= 0x80;
    for packet in [response, vec![0; 11], Vec::new(), vec![0; 513]] {
        assert_eq!(parse(&packet), Parsed::Drop);
    }
}
