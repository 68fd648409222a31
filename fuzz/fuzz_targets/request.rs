//! The request parser: the same bytes give the same requests wherever they are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mayfly::resp::request::{Limits, Parser, ProtocolError, Step};

type Outcome = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

fn parse(pieces: &[&[u8]]) -> Outcome {
    let limits = Limits { bulk_bytes_max: 1 << 20, authenticated: true };
    let (mut parser, mut buffer, mut requests) = (Parser::default(), Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let mut args = Vec::new();
            match parser.step(&mut buffer, &limits, &mut args) {
                Ok(Step::Request { .. }) => {
                    requests.push(args.iter().map(|arg| arg.of(buffer[..].into()).to_vec()).collect());
                }
                Ok(Step::Empty) => {}
                Ok(Step::Incomplete) => break,
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    (requests, None)
}

fuzz_target!(|data: &[u8]| {
    let whole = parse(&[data]);
    let cut = data.first().map_or(0, |&byte| byte as usize % data.len());
    assert_eq!(whole, parse(&[&data[..cut], &data[cut..]]));
    let bytes: Vec<&[u8]> = data.chunks(1).collect();
    assert_eq!(whole, parse(&bytes));
});
