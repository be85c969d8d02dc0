//! tests/bindings/c/peer.c in Rust: moves verified data to and from whoever serves a segment of 1 MiB.
//!
//! ```text
//! peer target CONN NAME             serve 1 MiB, print "ready SEGMENT ADDRESS"; at the end of standard input see what it holds
//! peer initiator CONN NAME SEGMENT  WRITE the pattern there, READ it back, compare
//! ```
use std::error::Error;
use std::io::{self, Read};

use transfer_engine::{Engine, Region, Request};

const SIZE: usize = 1 << 20;
const BLOCK: usize = 1 << 16;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn pattern() -> Vec<u8> {
    (0..SIZE).map(|i| (i * 31 + i / 251) as u8).collect()
}

fn check_pattern(region: &Region) -> Result<()> {
    let mut bytes = vec![0; SIZE];
    region.read_at(0, &mut bytes);
    match bytes.iter().zip(pattern()).position(|(a, b)| *a != b) {
        None => Ok(()),
        Some(at) => Err(format!("wrong byte at {at}").into()),
    }
}

fn initiator(engine: &Engine, name: &str) -> Result<()> {
    let (mine, back) = (engine.alloc_private(SIZE, "*")?, engine.alloc_private(SIZE, "*")?);
    let segment = engine.segment(name)?;
    let base = segment.buffers()?.first().ok_or("no buffer")?.addr;
    let blocks = || (0..SIZE).step_by(BLOCK);
    mine.write_at(0, &pattern());
    let batch = engine.batch(2 * SIZE / BLOCK)?;
    let writes: Vec<_> = blocks().map(|at| Request::write(&mine, at, &segment, base + at as u64, BLOCK)).collect();
    batch.submit(&writes)?;
    batch.wait(None)?;
    let reads: Vec<_> = blocks().map(|at| Request::read(&back, at, &segment, base + at as u64, BLOCK)).collect();
    batch.submit(&reads)?;
    batch.wait(None)?;
    check_pattern(&back)?;
    println!("moved 1 MiB and back");
    Ok(())
}

fn target(engine: &Engine, conn: &str, name: &str) -> Result<()> {
    let region = engine.alloc(SIZE, "*")?;
    let name = if conn == "P2PHANDSHAKE" { engine.local_address()? } else { name.to_string() };
    println!("ready {name} {:#x}", region.addr());
    io::stdin().read_to_end(&mut Vec::new())?;
    check_pattern(&region)
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let args: Vec<&str> = args.iter().map(|a| a.as_str()).collect();
    match args[1..] {
        ["target", conn, name] => target(&Engine::open(conn, name)?, conn, name),
        ["initiator", conn, name, segment] => initiator(&Engine::open(conn, name)?, segment),
        _ => Err("Usage: peer target CONN NAME | peer initiator CONN NAME SEGMENT".into()),
    }
}
