//! Mooncake's bench sample in Rust: reads or writes blocks of a target's memory over and over, and says how fast. Its flags are those of
//! transfer_engine_bench (`--x=v`, `--x v`, `--nox`; dashes or underscores).
//!
//! ```text
//! bench --mode=target --metadata_server=http://10.0.0.1:8080/metadata --local_server_name=node2 --protocol=tcp
//! bench --segment_id=node2 --metadata_server=http://10.0.0.1:8080/metadata --protocol=tcp
//! ```
use std::collections::HashMap;
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use transfer_engine::{Buffer, Engine, Region, Request, Segment};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Name, default, meaning.
const FLAGS: &[(&str, &str, &str)] = &[
    ("mode", "initiator", "initiator or target"),
    ("metadata_server", "192.168.3.77:2379", "metadata store, or P2PHANDSHAKE"),
    ("local_server_name", "", "our segment's name; default the host's"),
    ("protocol", "rdma", "rdma or tcp"),
    ("device_name", "mlx5_2", "NICs, comma list"),
    ("nic_priority_matrix", "", "file of a priority matrix; else all NICs are preferred"),
    ("auto_discovery", "false", "find the NICs"),
    ("segment_id", "192.168.3.76", "the target's segment"),
    ("operation", "read", "read or write"),
    ("buffer_size", "1073741824", "bytes of memory"),
    ("batch_size", "128", "requests a batch"),
    ("block_size", "65536", "bytes a request"),
    ("duration", "10", "seconds"),
    ("threads", "12", "threads that submit"),
    ("report_unit", "GB", "GB, GiB, Gb, MB, MiB, Mb, KB, KiB or Kb, a second"),
    ("report_precision", "2", "digits behind the point"),
    ("target_base", "0", "address in the target; 0: its buffers are asked for"),
];

struct Flags(HashMap<&'static str, String>);

impl Flags {
    fn parse(args: impl Iterator<Item = String>) -> Result<Flags> {
        let mut flags = Flags(FLAGS.iter().map(|f| (f.0, f.1.to_string())).collect());
        let mut args = args.peekable();
        while let Some(arg) = args.next() {
            let text = arg.strip_prefix('-').ok_or(format!("unknown argument '{arg}'"))?;
            let text = text.strip_prefix('-').unwrap_or(text);
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name.replace('-', "_"), Some(value.to_string())),
                None => (text.replace('-', "_"), None),
            };
            if name == "noauto_discovery" && value.is_none() {
                flags.0.insert("auto_discovery", "false".into());
                continue;
            }
            let flag = FLAGS.iter().find(|f| f.0 == name).ok_or(format!("unknown flag '{arg}'"))?.0;
            let value = match value {
                Some(value) => value,
                None if flag == "auto_discovery" => "true".into(),
                None => args.next().ok_or(format!("flag '{arg}' needs a value"))?,
            };
            flags.0.insert(flag, value);
        }
        Ok(flags)
    }

    fn text(&self, name: &str) -> &str {
        &self.0[name]
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T> {
        self.0[name].parse().map_err(|_| format!("--{name}={}: not a number", self.0[name]).into())
    }

    fn one_of(&self, name: &str, values: &[&str]) -> Result<()> {
        if values.contains(&self.text(name)) {
            return Ok(());
        }
        Err(format!("--{name}={}: {}", self.text(name), values.join(" or ")).into())
    }
}

struct Config {
    flags: Flags,
    buffer_size: usize,
    block_size: usize,
    batch_size: usize,
    threads: usize,
    duration: f64,
    precision: usize,
    target_base: u64,
}

impl Config {
    fn new(flags: Flags) -> Result<Config> {
        flags.one_of("mode", &["initiator", "target"])?;
        flags.one_of("operation", &["read", "write"])?;
        flags.one_of("auto_discovery", &["false", "true", "0", "1"])?;
        let mut c = Config {
            buffer_size: flags.number("buffer_size")?,
            block_size: flags.number("block_size")?,
            batch_size: flags.number("batch_size")?,
            threads: flags.number("threads")?,
            duration: flags.number("duration")?,
            precision: flags.number("report_precision")?,
            target_base: flags.number("target_base")?,
            flags,
        };
        if c.batch_size == 0 || c.threads == 0 || c.block_size == 0 || c.duration.is_nan() || c.duration <= 0.0 {
            return Err("--batch_size, --threads, --block_size and --duration must be more than 0".into());
        }
        let need = c.need().ok_or("that is more memory than there is")?;
        if c.buffer_size < need {
            eprintln!("buffer size raised to {need} bytes");
            c.buffer_size = need;
        }
        Ok(c)
    }

    fn need(&self) -> Option<usize> {
        self.block_size.checked_mul(self.batch_size)?.checked_mul(self.threads)
    }

    /// The priority matrix that the flags ask for; none: the host's own.
    fn matrix(&self) -> Result<Option<String>> {
        let file = self.flags.text("nic_priority_matrix");
        if self.flags.text("protocol") == "tcp" || ["true", "1"].contains(&self.flags.text("auto_discovery")) {
            return Ok(None);
        }
        if !file.is_empty() {
            return Ok(Some(fs::read_to_string(file).map_err(|e| format!("'{file}': {e}"))?));
        }
        let nics: Vec<String> = self.flags.text("device_name").split(',').map(|n| format!("{n:?}")).collect();
        let nics = format!("[[{}],[]]", nics.join(","));
        Ok(Some(format!(r#"{{"cpu:0":{nics},"cpu:1":{nics},"cuda:0":{nics}}}"#)))
    }

    fn open(&self) -> Result<(Engine, Region)> {
        let engine = Engine::without_discovery(self.flags.text("metadata_server"), self.flags.text("local_server_name"))?;
        engine.install_transport(self.flags.text("protocol"), self.matrix()?.as_deref())?;
        let region = engine.alloc(self.buffer_size, "*")?;
        Ok((engine, region))
    }

    /// The target's buffers, each large enough.
    fn look(&self, segment: &Segment) -> Result<Vec<Buffer>> {
        let need = self.need().unwrap_or(0) as u64;
        if self.target_base != 0 {
            return Ok(vec![Buffer { addr: self.target_base, len: need }]);
        }
        let there = segment.buffers()?;
        if there.is_empty() {
            return Err(format!("segment '{}' has no buffer", segment.name()).into());
        }
        match there.iter().find(|b| b.len < need) {
            Some(b) => Err(format!(
                "segment '{}' has a buffer of {} bytes, which is less than block size x batch size x threads",
                segment.name(),
                b.len
            )
            .into()),
            None => Ok(there),
        }
    }
}

fn target(c: &Config) -> Result<()> {
    let (engine, region) = c.open()?;
    engine.enable_graceful_shutdown();
    println!(
        "target {} at {}, {} bytes at {:#x}",
        c.flags.text("local_server_name"),
        engine.local_address()?,
        region.len(),
        region.addr()
    );
    loop {
        thread::park();
    }
}

/// What the threads of an initiator share.
struct Bench<'a> {
    c: &'a Config,
    engine: &'a Engine,
    region: &'a Region,
    segment: &'a Segment,
    there: Vec<Buffer>,
    batches: AtomicU64,
    stopped: AtomicBool,
}

impl Bench<'_> {
    /// Of one thread: the same in each batch.
    fn requests(&self, thread: usize) -> Vec<Request<'_>> {
        let read = self.c.flags.text("operation") == "read";
        let base = self.there[thread % self.there.len()].addr;
        (0..self.c.batch_size)
            .map(|i| {
                let at = self.c.block_size * (i * self.c.threads + thread);
                let there = base + at as u64;
                if read {
                    Request::read(self.region, at, self.segment, there, self.c.block_size)
                } else {
                    Request::write(self.region, at, self.segment, there, self.c.block_size)
                }
            })
            .collect()
    }

    fn work(&self, thread: usize) -> transfer_engine::Result<()> {
        let requests = self.requests(thread);
        while !self.stopped.load(Relaxed) {
            if let Err(e) = self.engine.transfer(&requests) {
                self.stopped.store(true, Relaxed);
                return Err(e);
            }
            self.batches.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// All threads for the duration: how long it was.
    fn run(&self) -> Result<f64> {
        let start = Instant::now();
        let end = Duration::from_secs_f64(self.c.duration);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.c.threads).map(|t| scope.spawn(move || self.work(t))).collect();
            while start.elapsed() < end && !self.stopped.load(Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
            self.stopped.store(true, Relaxed);
            for worker in workers {
                worker.join().map_err(|_| "a thread has panicked")??;
            }
            Ok(start.elapsed().as_secs_f64())
        })
    }

    fn report(&self, seconds: f64) {
        let (batches, mut unit) = (self.batches.load(Relaxed), self.c.flags.text("report_unit"));
        let bytes = batches as f64 * self.c.batch_size as f64 * self.c.block_size as f64;
        let size = unit_size(unit).unwrap_or_else(|| {
            eprintln!("unknown unit '{unit}', GB is used");
            unit = "GB";
            1e9
        });
        println!(
            "Test completed: duration {seconds:.2}, batch count {batches}, throughput {:.*} {unit}/s",
            self.c.precision,
            bytes / seconds / size
        );
    }
}

fn unit_size(unit: &str) -> Option<f64> {
    Some(match unit {
        "GB" => 1e9,
        "GiB" => 1073741824.0,
        "Gb" => 1e9 / 8.0,
        "MB" => 1e6,
        "MiB" => 1048576.0,
        "Mb" => 1e6 / 8.0,
        "KB" => 1e3,
        "KiB" => 1024.0,
        "Kb" => 1e3 / 8.0,
        _ => return None,
    })
}

fn initiator(c: &Config) -> Result<()> {
    let (engine, region) = c.open()?;
    let segment = engine.segment(c.flags.text("segment_id"))?;
    let bench = Bench {
        c,
        engine: &engine,
        region: &region,
        segment: &segment,
        there: c.look(&segment)?,
        batches: AtomicU64::new(0),
        stopped: AtomicBool::new(false),
    };
    let seconds = bench.run()?;
    bench.report(seconds);
    Ok(())
}

fn run() -> Result<()> {
    if env::args().any(|a| a == "--help" || a == "-h") {
        for (name, default, meaning) in FLAGS {
            println!("  --{name}={default}  {meaning}");
        }
        return Ok(());
    }
    let c = Config::new(Flags::parse(env::args().skip(1))?)?;
    match c.flags.text("mode") {
        "target" => target(&c),
        _ => initiator(&c),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("bench: {e}");
            ExitCode::FAILURE
        }
    }
}
