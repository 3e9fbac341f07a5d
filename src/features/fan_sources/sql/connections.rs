//! The connections to one database. The caller bounds how many calls are under way, so this is only
//! a shelf of idle connections. If a call fails or is given up, its connection is dropped, and so
//! are all idle ones: after a restart of the database, or a switch to another server, they are
//! probably dead, too.

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use sqlx::{ConnectOptions, Connection};

use crate::store::fans::lookup::FanError;

pub(crate) struct Connections<C: Connection> {
    options: ArcSwap<C::Options>,
    idle: Mutex<Vec<C>>,
    /// Maximum idle connections.
    most: usize,
}

/// A connection for one call.
pub(crate) struct Lent<'a, C> {
    pub(crate) connection: C,
    shelf: Shelf<'a, C>,
}

/// Empties the shelf when dropped, unless the call went well.
struct Shelf<'a, C>(Option<&'a Mutex<Vec<C>>>);

impl<C> Drop for Shelf<'_, C> {
    fn drop(&mut self) {
        let dead = self.0.map(|idle| std::mem::take(&mut *idle.lock()));
        drop(dead);
    }
}

impl<C: Connection> Connections<C> {
    pub(crate) fn new(options: C::Options, most: usize) -> Self {
        Self {
            options: ArcSwap::from_pointee(options),
            idle: Mutex::default(),
            most,
        }
    }

    /// Logs new connections in with these options, and forgets the idle ones.
    pub(crate) fn log_in_with(&self, options: C::Options) {
        self.options.store(options.into());
        drop(Shelf(Some(&self.idle)));
    }

    /// An idle connection, or a new one.
    pub(crate) async fn take(&self) -> Result<Lent<'_, C>, FanError> {
        let shelf = Shelf(Some(&self.idle));
        let waiting = self.idle.lock().pop();
        let connection = match waiting {
            Some(connection) => connection,
            None => self.options.load_full().connect().await?,
        };
        Ok(Lent { connection, shelf })
    }

    /// Keeps a connection whose call went well.
    pub(crate) fn put_back(&self, mut lent: Lent<'_, C>) {
        lent.shelf.0 = None;
        let mut idle = self.idle.lock();
        if idle.len() < self.most {
            idle.push(lent.connection);
        }
    }
}
