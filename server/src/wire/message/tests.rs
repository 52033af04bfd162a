use super::*;

fn decode(kind: u8, body: &[u8]) -> SqlResult<Frontend> {
    Frontend::decode(kind, Bytes::copy_from_slice(body))
}

#[test]
fn a_bind_is_taken_apart() {
    let body = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\x01\0\0";
    let Ok(Frontend::Bind(bind)) = decode(b'B', body) else { panic!("no bind") };
    assert_eq!((bind.portal.as_str(), bind.statement.as_str()), ("p", "s"));
    assert_eq!(bind.params, vec![Some(Bytes::from_static(b"x")), None]);
    assert_eq!((bind.param_formats, bind.result_formats), (vec![1], vec![0]));
}

#[test]
fn d19_counts_and_lengths_beyond_the_message_are_refused() {
    let bad: [(u8, &[u8]); 7] = [
        (b'B', b"\0\0\0\x05"),
        (b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff"),
        (b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"),
        (b'P', b"\0SELECT"),
        (b'E', b"\0\0"),
        (b'D', b"X\0"),
        (b'S', b"x"),
    ];
    for (kind, body) in bad {
        assert_eq!(decode(kind, body).unwrap_err().state, SqlState::ProtocolViolation, "{}", kind as char);
    }
    assert_eq!(decode(b'Q', b"\xff\0").unwrap_err().state, SqlState::CharacterNotInRepertoire);
}

#[test]
fn d19_no_message_makes_the_decoder_panic() {
    let mut state: u64 = 11;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    for _ in 0..20_000 {
        let kind = b"QPBDECHSXdcfF"[usize::from(next()) % 13];
        let length = usize::from(next() % 40);
        let body: Vec<u8> = (0..length).map(|_| if next() % 3 == 0 { 0 } else { next() }).collect();
        let _ = decode(kind, &body);
    }
}

#[test]
fn an_error_has_every_part_that_is_known() {
    let mut out = BytesMut::new();
    let error = SqlError::syntax("syntax error").with_detail("D.").with_hint("H.").at(7);
    put_error(&mut out, "ERROR", &error, Some("line 1"));
    assert_eq!(&out[5..], b"SERROR\0VERROR\0C42601\0Msyntax error\0DD.\0HH.\0P7\0Wline 1\0\0");
}
