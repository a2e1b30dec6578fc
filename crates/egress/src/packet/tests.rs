//! Messages of one and of many packets.

use std::os::fd::AsFd;

use super::{FDS_MAX, PART_BYTES_MAX, PacketSocket, pair};

fn sockets() -> (PacketSocket, PacketSocket) {
    let (left, right) = pair().unwrap();
    (PacketSocket::new(left).unwrap(), PacketSocket::new(right).unwrap())
}

#[tokio::test]
async fn messages_arrive_whole_and_in_order() {
    let (left, right) = sockets();
    let lengths = [0, 1, PART_BYTES_MAX - 2, PART_BYTES_MAX, PART_BYTES_MAX * 5 + 7];
    let sending = async {
        for length in lengths {
            left.send(&"x".repeat(length), &[]).await.unwrap();
        }
        drop(left);
    };
    let receiving = async {
        for length in lengths {
            let (text, fds) = right.receive::<String>().await.unwrap().unwrap();
            assert_eq!((text.len(), fds.len()), (length, 0));
        }
        assert!(right.receive::<String>().await.unwrap().is_none());
    };
    tokio::join!(sending, receiving);
}

#[tokio::test]
async fn descriptors_come_with_their_message() {
    let (left, right) = sockets();
    let null = std::fs::File::open("/dev/null").unwrap();
    let fds = [null.as_fd(); 13];
    left.send(&"y".repeat(PART_BYTES_MAX + 1), &fds).await.unwrap();
    let (_, received) = right.receive::<String>().await.unwrap().unwrap();
    assert_eq!(received.len(), 13);
    let too_many = vec![null.as_fd(); FDS_MAX + 1];
    assert!(left.send(&"z", &too_many).await.is_err());
}

#[tokio::test]
async fn messages_are_bounded() {
    let (left, _right) = sockets();
    assert!(left.send(&"x".repeat(super::MESSAGE_BYTES_MAX), &[]).await.is_err());
}
