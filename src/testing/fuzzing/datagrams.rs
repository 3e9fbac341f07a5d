//! What the fuzzer runs of datagrams: what the gateway and the client read of each other.

use crate::features::datagrams::wire::{
    self, DatagramAnswer, DatagramKey, DatagramRequest, DatagramWish,
};

/// A datagram whose sender has the session's key. One that is accepted says the same when it is
/// written again.
pub(crate) fn datagram(bytes: &[u8]) {
    /// The bytes that are neither flags, of which some are not known yet, nor the code.
    fn content(datagram: &[u8]) -> [&[u8]; 2] {
        let after_flags = &datagram[2..datagram.len() - wire::MAC];
        [&datagram[..1], after_flags]
    }
    let key = DatagramKey::new(&[7; 32]);
    let mut sealed = bytes.to_vec();
    if sealed.len() >= wire::MAC {
        key.seal(&mut sealed);
    }
    if let Some(request) = DatagramRequest::read(&sealed) {
        assert!(request.is_authentic(&key));
        let DatagramRequest {
            session, counter, ..
        } = request;
        let again = match request.wish {
            DatagramWish::Beat => wire::beat(&key, &session, counter, true).to_vec(),
            DatagramWish::Leave => wire::leave(&key, &session, counter).to_vec(),
            DatagramWish::Hello { cookie, ticket } => {
                wire::hello_to(&key, &session, counter, cookie, ticket)
            }
        };
        assert_eq!(content(&again), content(&sealed));
    }
    if let Some(answer) = DatagramAnswer::read(&sealed, &key) {
        let again = match answer {
            DatagramAnswer::Ack(ack) => ack.seal(&key),
            DatagramAnswer::Challenge(challenge) => challenge.seal(&key),
        };
        assert_eq!(content(&again), content(&sealed));
        assert_eq!(DatagramAnswer::read(&again, &key), Some(answer));
    }
}
