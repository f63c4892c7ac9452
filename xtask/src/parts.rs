//! Processes that live as long as a task does.

use std::{
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Told to end, a part has so long before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// What was started. Dropped, all of it ends, the last one first.
pub struct Parts {
    started: Vec<(&'static str, Child)>,
    told_to_end: Arc<AtomicBool>,
}

impl Parts {
    /// From now on Ctrl-C and its like don't end this process: they end what waits here.
    pub fn none_yet() -> Result<Self> {
        let told_to_end = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, told_to_end.clone())?;
        }
        Ok(Self {
            started: Vec::new(),
            told_to_end,
        })
    }

    /// In a process group of its own: a Ctrl-C is for us, and we end the parts in their order.
    pub fn start(&mut self, name: &'static str, command: &mut Command) -> Result<()> {
        let child = command.stdin(Stdio::null()).process_group(0).spawn();
        let child = child.with_context(|| format!("{name} does not start"))?;
        self.started.push((name, child));
        Ok(())
    }

    /// Waits until there is something: `Some`. `None`: told to end. An error if a part has ended by itself.
    pub fn wait_for<T>(&mut self, mut look: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
        loop {
            if self.told_to_end.load(Ordering::Relaxed) {
                return Ok(None);
            }
            for (name, child) in &mut self.started {
                if let Some(status) = child.try_wait()? {
                    bail!("{name} has ended ({status})");
                }
            }
            if let Some(found) = look()? {
                return Ok(Some(found));
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        while let Some((name, mut child)) = self.started.pop() {
            if let Err(error) = end(&mut child) {
                eprintln!("xtask: {name} can't be ended: {error}");
            }
        }
    }
}

fn end(child: &mut Child) -> std::io::Result<()> {
    let told = Instant::now();
    while child.try_wait()?.is_none() {
        let signal = if told.elapsed() < GRACE {
            Signal::TERM
        } else {
            Signal::KILL
        };
        match kill_process_group(Pid::from_child(child), signal) {
            // It has just ended.
            Err(rustix::io::Errno::SRCH) => {}
            sent => sent?,
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
