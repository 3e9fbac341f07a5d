//! Owns what an audit says: one document for programs, a few tables for people.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};

use serde::Serialize;

use super::Look;
use super::drift::{Asked, Compared};
use super::finding::Finding;
use super::fix::Fixed;
use super::judge::Holding;
use super::leases::LeaseTold;
use super::survey::Survey;
use crate::clock::UnixMillis;
use crate::ids::{Epoch, GatewayId, LiveId, UserId};

/// What an audit found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What is wrong; the worst first.
    pub findings: Vec<Finding>,
    /// What was put right.
    pub fixed: Vec<Fixed>,
    /// Lives that are open or closing, by id.
    pub lives: Vec<LiveRow>,
    /// Gateways that live, have an entry in a slice, or were asked, by id.
    pub gateways: Vec<GatewayRow>,
    /// The keys with the most members.
    pub biggest_by_members: Vec<BigKey>,
    /// The keys that take the most memory.
    pub biggest_by_bytes: Vec<BigKey>,
    /// Names of keys that were read.
    pub keys_scanned: u64,
    /// Keys of lives among them, each once.
    pub live_keys: u64,
    /// Masters that were read.
    pub masters: usize,
    /// How long it took.
    pub seconds: f64,
}

/// A live that is open or closing.
#[derive(Debug, Clone, Serialize)]
pub struct LiveRow {
    /// The live.
    pub live_id: LiveId,
    /// `open` or `closing`.
    pub state: &'static str,
    /// Who owns it.
    pub streamer_id: UserId,
    /// Which opening of it.
    pub epoch: Epoch,
    /// Over how many slices its fans are spread.
    pub slices: u32,
    /// When it opened, in Unix milliseconds.
    pub opened_at: UnixMillis,
    /// Fans in its slices.
    pub fans: u64,
    /// Viewers that living gateways said.
    pub viewers: u64,
    /// Gateways that hold fans of it.
    pub gateways: u64,
    /// Whether `lives` lists it.
    pub listed: bool,
}

/// A gateway.
#[derive(Debug, Serialize)]
pub struct GatewayRow {
    /// Which.
    pub gateway_id: GatewayId,
    /// Slices in which it has an entry.
    pub slices: u64,
    /// Members that it holds in them.
    pub members: u64,
    /// Whether it lives.
    #[serde(flatten)]
    pub lease: LeaseTold,
    /// Whether it was asked what it holds.
    pub asked: bool,
    /// Slices in which what it says was compared with what the store holds.
    pub compared: u64,
    /// Slices that never held still for that.
    pub restless: u64,
}

/// A key, with its size.
#[derive(Debug, Clone, Serialize)]
pub struct BigKey {
    /// Its name.
    pub key: String,
    /// Members of a set, fields of a hash.
    pub members: u64,
    /// Bytes, as the server guesses; null where it does not say.
    pub bytes: Option<u64>,
}

impl Report {
    /// What a look at every live shows, but for the findings.
    pub(super) fn of(survey: &Survey, look: &Look, asked: &[Asked], compared: &Compared) -> Self {
        let mut gateways: BTreeMap<GatewayId, Holding> = BTreeMap::new();
        for (gateway, holding) in look.lives.iter().flat_map(|judged| &judged.gateways) {
            let sum = gateways.entry(gateway.clone()).or_default();
            sum.slices += holding.slices;
            sum.members += holding.members;
        }
        for gateway in look.leases.living().chain(asked.iter().map(|gateway| &gateway.id)) {
            gateways.entry(gateway.clone()).or_default();
        }
        let gateways = gateways.into_iter().map(|(gateway, holding)| {
            let (compared, restless) = compared.counts.get(&gateway).copied().unwrap_or_default();
            GatewayRow {
                slices: holding.slices,
                members: holding.members,
                lease: look.leases.get(&gateway).into(),
                asked: asked.iter().any(|one| one.id == gateway),
                compared,
                restless,
                gateway_id: gateway,
            }
        });
        Self {
            findings: Vec::new(),
            fixed: Vec::new(),
            lives: look.lives.iter().filter_map(|judged| judged.row.clone()).collect(),
            gateways: gateways.collect(),
            biggest_by_members: survey.by_members.clone(),
            biggest_by_bytes: survey.by_bytes.clone(),
            keys_scanned: survey.keys_scanned,
            live_keys: survey.live_keys,
            masters: survey.masters,
            seconds: 0.0,
        }
    }

    /// Puts everything in its order.
    pub(super) fn sort(&mut self) {
        self.lives.sort_by(|a, b| a.live_id.cmp(&b.live_id));
        self.findings.sort_by(|a, b| {
            let place = |f: &Finding| (f.severity, f.kind, f.live_id.clone(), f.slice, f.gateway_id.clone());
            place(a).cmp(&place(b))
        });
    }

    /// One JSON document.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, to: &mut String) -> fmt::Result {
        let fans: u64 = self.lives.iter().map(|live| live.fans).sum();
        writeln!(
            to,
            "{}, {}, {}; {} keys of lives on {} in {:.1} s",
            count(self.lives.len(), "live"),
            count(fans as usize, "fan"),
            count(self.gateways.len(), "gateway"),
            self.live_keys,
            count(self.masters, "master"),
            self.seconds
        )?;
        let rows = self.lives.iter().map(|live| {
            let figures = [live.epoch.0, u64::from(live.slices), live.fans, live.viewers, live.gateways];
            let mut row = vec![live.live_id.to_string(), live.state.to_owned()];
            row.extend(figures.map(|figure| figure.to_string()));
            row
        });
        table(to, &["live", "state", "epoch", "slices", "fans", "viewers", "gateways"], rows.collect())?;
        let rows = self.gateways.iter().map(|gateway| {
            let compared = match (gateway.asked, gateway.restless) {
                (false, _) => "not asked".to_owned(),
                (true, 0) => gateway.compared.to_string(),
                (true, restless) => format!("{}, and {restless} that never held still", gateway.compared),
            };
            let figures =
                [gateway.slices.to_string(), gateway.members.to_string(), gateway.lease.to_string(), compared];
            [vec![gateway.gateway_id.to_string()], figures.into()].concat()
        });
        table(to, &["gateway", "slices", "members", "lease", "slices compared"], rows.collect())?;
        for (title, keys) in [("most members", &self.biggest_by_members), ("most memory", &self.biggest_by_bytes)] {
            let bytes = |key: &BigKey| key.bytes.map_or_else(|| "?".to_owned(), |bytes| bytes.to_string());
            let rows = keys.iter().map(|key| vec![key.key.clone(), key.members.to_string(), bytes(key)]);
            table(to, &[title, "members", "bytes"], rows.collect())?;
        }
        writeln!(to)?;
        if !self.fixed.is_empty() {
            writeln!(to, "put right:")?;
            for fixed in &self.fixed {
                let live = fixed.live_id.as_ref().map_or("", |live| live.as_str());
                let slice = fixed.slice.map_or_else(String::new, |slice| format!(" slice {slice}"));
                let gateway = fixed.gateway_id.as_ref().map_or_else(String::new, |gateway| format!(" {gateway}"));
                writeln!(to, "{} live {live}{slice}{gateway}: {}", fixed.kind.as_str(), fixed.done)?;
            }
        }
        if self.findings.is_empty() {
            let left = if self.fixed.is_empty() { "found" } else { "left" };
            return write!(to, "nothing {left}: what Redis holds is right");
        }
        let left = if self.fixed.is_empty() { "" } else { " left" };
        write!(to, "{}{left}:", count(self.findings.len(), "finding"))?;
        for finding in &self.findings {
            write!(to, "\n{finding}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = format!("{:?}", self.severity).to_lowercase();
        write!(f, "{severity} {}", self.kind.as_str())?;
        if let Some(live) = &self.live_id {
            write!(f, " live {live}")?;
        }
        if let Some(slice) = self.slice {
            write!(f, " slice {slice}")?;
        }
        if let Some(gateway) = &self.gateway_id {
            write!(f, " {gateway}")?;
        }
        write!(f, ": {}", self.detail)
    }
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Rows under a head, in columns; nothing if there are no rows.
fn table(to: &mut String, head: &[&str], rows: Vec<Vec<String>>) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].len());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    writeln!(to)?;
    let head = head.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(head).chain(rows) {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        writeln!(to, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// Writes to standard output; a reader that went away is no failure.
pub(super) fn print(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}
