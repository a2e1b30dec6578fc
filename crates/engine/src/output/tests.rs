//! Head, tail and the mark between.

use super::HeadTail;

fn check(bytes_max: u64, chunks: &[&str], kept: &str, left_out: u64) {
    let mut stream = HeadTail::new(bytes_max);
    let mut live = String::new();
    for chunk in chunks {
        live.push_str(std::str::from_utf8(stream.push(chunk.as_bytes())).unwrap());
    }
    assert_eq!(stream.left_out(), left_out);
    live.push_str(&String::from_utf8(stream.rest()).unwrap());
    assert_eq!(live, kept, "what is shown live and what is kept are the same");
    assert_eq!(String::from_utf8(stream.into_bytes()).unwrap(), kept);
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
