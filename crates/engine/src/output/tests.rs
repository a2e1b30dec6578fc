//! Tests of head, tail and the mark between, and of decoding.

use super::{Decoder, HeadTail};

fn check(bytes_max: u64, chunks: &[&str], kept: &str, left_out: u64) {
    let mut stream = HeadTail::new(bytes_max);
    let mut live = String::new();
    for chunk in chunks {
        live.push_str(std::str::from_utf8(stream.push(chunk.as_bytes())).unwrap());
    }
    assert_eq!(stream.left_out(), left_out);
    live.push_str(&String::from_utf8(stream.rest()).unwrap());
    assert_eq!(live, kept, "what is shown live and what is kept are the same");
    assert_eq!(stream.to_string(), kept);
}

#[test]
fn short_output_is_kept_whole() {
    check(8, &[], "", 0);
    check(8, &["abc"], "abc", 0);
    check(8, &["abcd", "efgh"], "abcdefgh", 0);
    check(8, &["a", "b", "c", "d", "e", "f"], "abcdef", 0);
}

#[test]
fn long_output_keeps_both_ends() {
    check(8, &["abcdefghi"], "abcd\n[… 1 bytes left out …]\nfghi", 1);
    check(8, &["abcd", "0123456789", "wxyz"], "abcd\n[… 10 bytes left out …]\nwxyz", 10);
    check(7, &["abcdefgh", "i"], "abcd\n[… 2 bytes left out …]\nghi", 2);
}

#[test]
fn one_byte_is_a_bound_too() {
    check(1, &["xyz"], "x\n[… 2 bytes left out …]\n", 2);
}

#[test]
fn characters_between_head_and_tail_are_whole() {
    let mut stream = HeadTail::new(8);
    stream.push("abc€de".as_bytes());
    assert_eq!((stream.left_out(), stream.to_string().as_str()), (0, "abc€de"));
    stream.push("€".as_bytes());
    let cut = "abc\u{fffd}\n[… 3 bytes left out …]\ne€";
    assert_eq!((stream.left_out(), stream.to_string().as_str()), (3, cut));
}

#[test]
fn sealed_output_does_not_grow() {
    let mut stream = HeadTail::new(8);
    assert_eq!((stream.growth(3), stream.growth(100)), (3, 8));
    stream.push(b"abcdef");
    assert_eq!(stream.growth(100), 2);
    stream.seal();
    assert_eq!(stream.growth(100), 0);
    stream.push(b"xyz");
    assert_eq!((stream.kept(), stream.total()), (6, 9));
    assert_eq!(stream.to_string(), "abcd\n[… 3 bytes left out …]\nyz");
    let empty = stream.without_content();
    assert_eq!((empty.kept(), empty.total(), empty.left_out()), (0, 9, 9));
}

#[test]
fn characters_cut_in_two_come_out_whole() {
    let sentence = "añ€😀 z".repeat(3);
    for size in 1..8 {
        let mut decoder = Decoder::default();
        let mut whole: String =
            sentence.as_bytes().chunks(size).map(|chunk| decoder.text(chunk)).collect();
        whole += &decoder.finish();
        assert_eq!(whole, sentence, "in chunks of {size}");
    }
    let mut decoder = Decoder::default();
    assert_eq!(decoder.text(b"a\xff\xe2\x82"), "a\u{fffd}");
    assert_eq!(decoder.text(b"b"), "\u{fffd}b");
    assert_eq!(decoder.text(b"\xf0\x9f"), "");
    assert_eq!(decoder.finish(), "\u{fffd}");
}
