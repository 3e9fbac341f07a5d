//! What the kernel keeps for sockets, from `/proc/slabinfo`, which only root may read. Bytes in the
//! buffers of a socket come on top; an idle socket has none.

use std::fs;

/// Objects of sockets alone.
const OF_SOCKETS: [&str; 3] = ["TCP", "UDP", INODES];

/// Each socket has one.
const INODES: &str = "sock_inode_cache";

/// Each socket that a program waits for has one of these, too: its name, its file, and its place in
/// an epoll. They are not counted, because everything else on the machine has such objects.
const WITH_EACH: [&str; 3] = ["dentry", "filp", "eventpoll_epi"];

/// Bytes in objects of sockets, of all processes on the machine; `None` for anybody but root.
pub(super) fn of_sockets() -> Option<f64> {
    let text = fs::read_to_string("/proc/slabinfo").ok()?;
    Some(sum(&text))
}

fn sum(text: &str) -> f64 {
    let mut bytes = 0.0;
    let mut sockets = 0.0;
    let mut with_each = 0.0;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        let [name, active, _, size] = words[..] else {
            continue;
        };
        let (Ok(active), Ok(size)) = (active.parse::<f64>(), size.parse::<f64>()) else {
            continue;
        };
        if OF_SOCKETS.contains(&name) {
            bytes += active * size;
        }
        if WITH_EACH.contains(&name) {
            with_each += size;
        }
        if name == INODES {
            sockets = active;
        }
    }
    bytes + sockets * with_each
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_objects_of_sockets_are_summed_up() {
        let text = "slabinfo - version: 2.1\n\
                    # name <active_objs> <num_objs> <objsize> <objperslab>\n\
                    TCPv6 26 26 2496 13 8 : tunables 0 0 0\n\
                    TCP 10 143 2000 13 8 : tunables 0 0 0\n\
                    sock_inode_cache 10 20 800 19 4 : tunables 0 0 0\n\
                    filp 999 2000 200 21 1 : tunables 0 0 0\n";
        assert_eq!(sum(text), 10.0 * (2_000.0 + 800.0 + 200.0));
    }
}
