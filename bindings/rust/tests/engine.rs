//! Engines that meet, and a te-target. TE_TEST_CONN: the store, P2P without it. TE_BUILD: where te-target is.
use std::process::{Child, Command};
use std::time::Duration;
use std::{env, fs, process, thread};

use transfer_engine::{Buffer, Code, Engine, Error, Notification, Op, Region, Request, Segment, State};

const SIZE: usize = 1 << 20;
const P2P: &str = "P2PHANDSHAKE";

fn conn() -> String {
    env::var("TE_TEST_CONN").unwrap_or_else(|_| P2P.into())
}

/// One of this test, and what its segment is called.
fn engine(wish: &str) -> (Engine, String) {
    let name = if conn() == P2P { "127.0.0.1".into() } else { format!("rust-{wish}-{}", process::id()) };
    let e = Engine::without_discovery(&conn(), &name).unwrap();
    let name = if conn() == P2P { e.local_address().unwrap() } else { name };
    (e, name)
}

struct Two {
    a: Engine,
    b: Engine,
    mine: Region,
    theirs: Region,
    segment: Segment,
    there: Buffer,
}

fn two(wish: &str) -> Two {
    let ((a, _), (b, b_name)) = (engine(&format!("{wish}-a")), engine(&format!("{wish}-b")));
    let (mine, theirs) = (a.alloc_private(SIZE, "*").unwrap(), b.alloc(SIZE, "cpu:0").unwrap());
    let segment = a.segment(&b_name).unwrap();
    let there = segment.buffers().unwrap()[0];
    Two { a, b, mine, theirs, segment, there }
}

fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        })
        .collect()
}

fn bytes(r: &Region) -> Vec<u8> {
    let mut v = vec![0; r.len()];
    r.read_at(0, &mut v);
    v
}

fn code<T: std::fmt::Debug>(r: Result<T, Error>) -> Option<Code> {
    r.unwrap_err().code()
}

/// There and back, in blocks, every byte compared.
fn round_trip(e: &Engine, region: &Region, segment: &Segment, there: u64) {
    let half = SIZE / 2;
    let data = random(process::id().into(), half);
    let blocks = |op, from: usize| -> Vec<Request<'_>> {
        (0..8)
            .map(|i| i * half / 8)
            .map(|at| Request { op, region, offset: from + at, segment, target_offset: there + at as u64, len: half / 8 })
            .collect()
    };
    region.write_at(0, &data);
    e.transfer(&blocks(Op::Write, 0)).unwrap();
    e.transfer(&blocks(Op::Read, half)).unwrap();
    assert!(bytes(region)[half..] == data, "wrong bytes");
}

#[test]
fn two_engines() {
    let t = two("two");
    assert_eq!((t.there.addr, t.there.len), (t.theirs.addr(), SIZE as u64));
    round_trip(&t.a, &t.mine, &t.segment, t.there.addr);
    assert!(bytes(&t.theirs)[..SIZE / 2] == bytes(&t.mine)[..SIZE / 2]);
    t.a.sync().unwrap();
    assert_eq!(t.a.segment_fresh(t.segment.name()).unwrap().id(), t.segment.id());
}

#[test]
fn copying_in_and_out() {
    let (e, _) = engine("copy");
    let r = e.alloc(256, "*").unwrap();
    let mut model = vec![0; 256];
    for offset in 0..40 {
        for len in 0..40 {
            let data = random((offset * 64 + len + 1) as u64, len);
            r.write_at(offset, &data);
            model[offset..offset + len].copy_from_slice(&data);
            let mut got = vec![0; len];
            r.read_at(offset, &mut got);
            assert_eq!(got, data);
        }
    }
    assert_eq!(bytes(&r), model);
    let beyond =
        |offset, len| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| r.read_at(offset, &mut vec![0; len]))).is_err();
    assert!(beyond(256, 1) && beyond(250, 7) && beyond(usize::MAX, 2) && !beyond(256, 0));
}

#[test]
fn batches() {
    let t = two("batch");
    let batch = t.a.batch(2).unwrap();
    let good = Request::read(&t.mine, 0, &t.segment, t.there.addr, 4096);
    let bad = Request { target_offset: 8, ..good };
    assert!(batch.is_empty());
    batch.submit(&[good, bad]).unwrap();
    assert_eq!(code(batch.submit(&[good])), Some(Code::TOO_MANY_REQUESTS));
    let failed = batch.wait(Some(Duration::from_secs(10))).unwrap_err();
    assert_eq!(failed, Error::Transfer { task: 1, state: State::Invalid });
    assert_eq!(failed.to_string(), "request 1: its range is in no buffer of the target");
    let s = batch.status(0).unwrap();
    assert_eq!((s.state, s.transferred), (State::Completed, 4096));
    assert_eq!(code(batch.status(2)), Some(Code::INVALID_ARGUMENT));
    let beyond = Request { offset: SIZE - 1, ..good };
    assert_eq!(code(t.a.transfer(&[beyond])), Some(Code::INVALID_ARGUMENT));
    let foreign = Request { region: &t.theirs, ..good };
    assert_eq!(code(t.a.transfer(&[foreign])), Some(Code::ADDRESS_NOT_REGISTERED));
    assert_eq!(code(t.b.transfer(&[good])), Some(Code::INVALID_ARGUMENT), "a segment of another engine");
    t.a.transfer(&[]).unwrap();
    assert_eq!(code(t.a.batch(0)), Some(Code::INVALID_ARGUMENT));
}

#[test]
fn memory() {
    let (e, _) = engine("memory");
    let (r, private) = (e.alloc(8192, "*").unwrap(), e.alloc_private(8192, "*").unwrap());
    assert_eq!(e.buffers().unwrap(), [Buffer { addr: r.addr(), len: 8192 }]);
    let again = unsafe { e.register_raw(r.as_ptr(), 16, "*", true) };
    assert_eq!(code(again), Some(Code::ADDRESS_OVERLAPPED));
    assert_eq!(code(e.alloc(0, "*")), Some(Code::INVALID_ARGUMENT));
    assert_eq!(code(e.alloc(4096, "gpu 3")), Some(Code::INVALID_ARGUMENT));
    assert_eq!(code(e.alloc(4096, "c\0")), Some(Code::INVALID_ARGUMENT));
    r.unregister().unwrap();
    drop(private);
    assert!(e.buffers().unwrap().is_empty());
    let mut own = vec![1u8; 4096];
    let raw = unsafe { e.register_raw(own.as_mut_ptr(), own.len(), "*", true) }.unwrap();
    raw.write_at(1, &[7]);
    drop(raw);
    assert_eq!(own[..3], [1, 7, 1]);
}

#[test]
fn notifications() {
    let t = two("notify");
    let n = |name: &str, msg: &str| Notification { name: name.into(), msg: msg.into() };
    t.segment.notify(&n("one", "1")).unwrap();
    let batch = t.a.batch(1).unwrap();
    let request = Request::write(&t.mine, 0, &t.segment, t.there.addr, SIZE);
    assert_eq!(code(batch.submit_with_notify(&[], &n("", ""))), Some(Code::INVALID_ARGUMENT));
    batch.submit_with_notify(&[request], &n("two", "done")).unwrap();
    batch.wait(None).unwrap();
    let mut got = Vec::new();
    for _ in 0..5000 {
        got.extend(t.b.notifications());
        if got.len() >= 2 {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(got, [n("one", "1"), n("two", "done")]);
}

#[test]
fn many_threads() {
    let t = two("threads");
    let piece = SIZE / 16;
    thread::scope(|s| {
        for i in 0..16 {
            let t = &t;
            s.spawn(move || {
                for round in 0..50 {
                    let data = vec![(i * 16 + round) as u8; piece];
                    t.mine.write_at(i * piece, &data);
                    let there = t.there.addr + (i * piece) as u64;
                    t.a.transfer(&[Request::write(&t.mine, i * piece, &t.segment, there, piece)]).unwrap();
                    let mut got = vec![0; piece];
                    t.theirs.read_at(i * piece, &mut got);
                    assert!(got == data, "wrong bytes");
                }
            });
        }
    });
}

#[test]
fn owners_in_any_order() {
    let t = two("owners");
    let batch = t.a.batch(4).unwrap();
    let request = Request::write(&t.mine, 0, &t.segment, t.there.addr, SIZE);
    batch.submit(&[request; 4]).unwrap();
    // Nothing waits, and the engine's own owner goes first.
    let Two { a, b, mine, theirs, segment, .. } = t;
    drop(a);
    drop(mine);
    drop(segment);
    assert!(matches!(batch.wait(None), Ok(()) | Err(Error::Transfer { .. })));
    drop(batch);
    drop(theirs);
    drop(b);
}

#[test]
fn wrong() {
    let (e, _) = engine("wrong");
    let unknown = e.segment("nobody-of-this-name").unwrap_err();
    assert!(unknown.to_string().starts_with("openSegment 'nobody-of-this-name': "), "{unknown}");
    e.install_transport("tcp", None).unwrap();
    assert!(e.install_transport("pigeon", None).is_err());
    assert!(e.install_transport("rdma", Some("{ no matrix")).is_err());
    assert!(e.show_links(true).unwrap().contains("\"topology\""));
    assert_eq!(code(Engine::open("no://such.store", "x")), Some(Code::CONTEXT));
    assert_eq!(code(Engine::open("P2P\0", "x")), Some(Code::INVALID_ARGUMENT));
}

struct Target(Child);

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn te_target() {
    let build = env::var("TE_BUILD").unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../build").into());
    let ready = env::temp_dir().join(format!("te-rust-{}.json", process::id()));
    let name = if conn() == P2P { "127.0.0.1".into() } else { format!("rust-target-{}", process::id()) };
    let child = Command::new(format!("{build}/te-target"))
        .arg(format!("--metadata-server={}", conn()))
        .arg(format!("--ready-file={}", ready.display()))
        .arg(format!("--local-server-name={name}"))
        .arg("--buffer-size=1M")
        .spawn()
        .expect("te-target");
    let _target = Target(child);
    let text = (0..1000)
        .find_map(|_| {
            thread::sleep(Duration::from_millis(10));
            fs::read_to_string(&ready).ok().filter(|t| !t.is_empty())
        })
        .expect("te-target is not ready");
    fs::remove_file(&ready).unwrap();
    let name = text.split("\"segment\":").nth(1).and_then(|t| t.split('"').nth(1)).unwrap();
    let (e, _) = engine("with-target");
    let region = e.alloc(SIZE, "*").unwrap();
    let segment = e.segment(name).unwrap();
    let there = segment.buffers().unwrap()[0].addr;
    round_trip(&e, &region, &segment, there);
}
