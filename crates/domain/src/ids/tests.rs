//! Ids are read in the form in which they are written, and in no other.

use super::{CellId, ItemKind, KernelId, UnknownId};

#[test]
fn what_is_written_is_read() {
    for number in [1, 9, 10, 12_345, u64::MAX] {
        let id = CellId::new(number);
        assert_eq!(CellId::parse(&id.to_string()), Ok(id));
    }
    assert_eq!(KernelId::new(3).to_string(), "k3");
}

#[test]
fn other_texts_are_no_ids() {
    for text in ["", "c", "k1", "C1", "c0", "c01", "c+1", "c-1", "c1 ", " c1", "c1.0", "1", "c١"] {
        assert_eq!(
            CellId::parse(text),
            Err(UnknownId { kind: ItemKind::Cell, text: text.to_owned() })
        );
    }
    assert!(CellId::parse("c18446744073709551616").is_err(), "one more than fits");
    let long = CellId::parse(&"c".repeat(1000)).unwrap_err();
    assert_eq!(long.text.len(), 80);
}
