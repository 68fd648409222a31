//! Requests per second of the parser alone, for pipelines of small requests.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mayfly::resp::request::{Limits, Parser, Step};
use std::hint::black_box;

/// Requests in one pipeline; about what one read of 16 KiB brings.
const PIPELINE: usize = 256;

fn pipelines(c: &mut Criterion) {
    let limits = Limits {
        bulk_bytes_max: 512 << 20,
        authenticated: true,
    };
    let value = "v".repeat(100);
    let requests = [
        (
            "get",
            String::from("*2\r\n$3\r\nGET\r\n$16\r\nkey:000000012345\r\n"),
        ),
        (
            "set",
            String::from("*3\r\n$3\r\nSET\r\n$16\r\nkey:000000012345\r\n$3\r\nxyz\r\n"),
        ),
        (
            "set_ex_100",
            format!(
                "*5\r\n$3\r\nSET\r\n$16\r\nkey:000000012345\r\n\
                 $100\r\n{value}\r\n$2\r\nEX\r\n$4\r\n3600\r\n"
            ),
        ),
        ("inline_get", String::from("GET key:000000012345\r\n")),
    ];
    let mut group = c.benchmark_group("parser");
    group.throughput(Throughput::Elements(PIPELINE as u64));
    for (name, request) in requests {
        let mut buf = request.repeat(PIPELINE).into_bytes();
        let mut args = Vec::new();
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut parser = Parser::default();
                args.clear();
                let mut count = 0;
                while let Ok(Step::Request { argc }) =
                    parser.step(black_box(&mut buf), &limits, &mut args)
                {
                    count += black_box(argc);
                }
                count
            });
        });
    }
    group.finish();
}

criterion_group!(benches, pipelines);
criterion_main!(benches);
