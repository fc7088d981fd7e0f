//! Waiting for a process to say something, to listen, to answer, to fall silent or to end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::watch;

use super::http::{self, Url};
use super::state::Life;
use super::{Process, lock};
use crate::output::Grep;
use crate::platform;

/// What to wait for: whatever of it holds first.
#[derive(Debug)]
pub struct Conditions {
    /// A line matches, also an unfinished one.
    pub pattern: Option<Grep>,
    /// The tree listens on this TCP port.
    pub port: Option<u16>,
    /// This answers with a success or a redirection.
    pub url: Option<Url>,
    /// No other machine is asked for it.
    pub only_here: bool,
    /// Nothing was written for so long.
    pub idle: Option<Duration>,
    /// So much time is over.
    pub timeout: Duration,
}

/// Why a wait is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// This line matches.
    Pattern(String),
    /// The tree listens.
    Port,
    /// The URL answers.
    Url,
    /// The leader has ended.
    Exit,
    /// Nothing was written for a while.
    Idle,
    /// It was not worth longer.
    Timeout,
}

impl Reason {
    /// The word for it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pattern(_) => "pattern",
            Self::Port => "port",
            Self::Url => "url",
            Self::Exit => "exit",
            Self::Idle => "idle",
            Self::Timeout => "timeout",
        }
    }
}

/// How often is looked at what tells nobody that it has changed.
const LOOK: Duration = Duration::from_millis(50);

/// Who listens on this machine accepts sooner.
const LONGEST_CONNECT: Duration = Duration::from_millis(200);

/// How long to leave a process that goes on writing to itself before its text is searched again.
const PAUSE: Duration = Duration::from_millis(5);

impl Process {
    /// Waits until one of the conditions holds, for what comes after a cursor, or for all that is
    /// held. The leader's end always ends a wait. What was written before that, also on the other
    /// stream, has then been read.
    pub async fn wait(&self, conditions: &Conditions, since: Option<u64>) -> Reason {
        let reason = self.first(conditions, since).await;
        self.settle().await;
        reason
    }

    /// Whether the tree certainly listens on a TCP port.
    pub fn listens(&self, port: u16) -> bool {
        platform::listens(self.guard, port) == Some(true)
    }

    async fn first(&self, conditions: &Conditions, since: Option<u64>) -> Reason {
        let begun = Instant::now();
        let deadline = begun + conditions.timeout;
        let mut place = lock(&self.output).place(since);
        let (mut written, mut life) = (self.written.clone(), self.life.clone());
        let mut served = std::pin::pin!(self.served(conditions, deadline));
        loop {
            // In this order: what is seen of the life first is of no later moment than what is
            // then seen of the output.
            let ended = life.borrow_and_update().exited.is_some();
            let last = (*written.borrow_and_update()).max(begun);
            if let Some(pattern) = &conditions.pattern
                && let Some(line) = lock(&self.output).search(pattern, &mut place)
            {
                return Reason::Pattern(line);
            }
            if ended {
                return Reason::Exit;
            }
            if let Some(port) = conditions.port
                && self.listens_or_may(port).await
            {
                return Reason::Port;
            }
            let silence = conditions.idle.map(|idle| last + idle);
            let now = Instant::now();
            if silence.is_some_and(|silence| now >= silence) {
                return Reason::Idle;
            }
            if now >= deadline {
                return Reason::Timeout;
            }
            let look = conditions.port.map(|_| now + LOOK);
            let next = [Some(deadline), silence, look].into_iter().flatten().min();
            tokio::select! {
                () = super::task::until(next) => {}
                () = has_ended(&mut life) => {}
                () = &mut served => return Reason::Url,
                changed = written.changed() => {
                    // After its end nothing changes any more.
                    if changed.is_err() || conditions.pattern.is_some() {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }
    }

    /// Whether the tree listens there. Where that cannot be seen, whether anybody does.
    async fn listens_or_may(&self, port: u16) -> bool {
        match platform::listens(self.guard, port) {
            Some(listens) => listens,
            None => accepts(port).await,
        }
    }

    /// Completes when the URL answers.
    async fn served(&self, conditions: &Conditions, deadline: Instant) {
        let Some(url) = &conditions.url else {
            return std::future::pending().await;
        };
        loop {
            let deadline = deadline.min(Instant::now() + http::PATIENCE);
            let asked = self.serves(url, conditions.only_here);
            if let Ok(true) = tokio::time::timeout_at(deadline.into(), asked).await {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether it answers. On this machine it is the tree that must: a stale server on the same port
    /// is none of it. What is asked is exactly what was looked at: a name may lead elsewhere the
    /// next time.
    async fn serves(&self, url: &Url, only_here: bool) -> bool {
        for address in url.addresses().await {
            let may_ask = if http::is_here(address) {
                self.listens_or_may(url.port).await
            } else {
                !only_here
            };
            if may_ask && let Some(answer) = url.answers(address).await {
                return answer;
            }
        }
        false
    }
}

/// Whether a connection to a port of this machine is accepted.
pub async fn accepts(port: u16) -> bool {
    let addresses = [
        IpAddr::from(Ipv4Addr::LOCALHOST),
        Ipv6Addr::LOCALHOST.into(),
    ];
    for address in addresses {
        let connection = TcpStream::connect((address, port));
        if let Ok(Ok(_)) = tokio::time::timeout(LONGEST_CONNECT, connection).await {
            return true;
        }
    }
    false
}

async fn has_ended(life: &mut watch::Receiver<Life>) {
    let _ = life.wait_for(|life| life.exited.is_some()).await;
}
