//! Groups that the socket of a program listens to, with their source filters, as the program has named them.

use core::net::IpAddr;
use std::io;

use net::channel::{Join, Link, Sender};

use crate::sockets::aio::UdpSocket;

/// A group, its link, and its senders.
struct Member {
    group: IpAddr,
    on: Link,
    excludes: bool,
    senders: Vec<IpAddr>,
}

/// The groups of a socket.
#[derive(Default)]
pub(super) struct Groups {
    members: Vec<Member>,
    /// The link by which it sends to groups, if one was chosen.
    by: Option<Link>,
}

impl Groups {
    /// Notes the link by which the socket sends to groups.
    pub(super) fn send_by(&mut self, link: Link) {
        self.by = Some(link);
    }

    /// Has a socket that comes in the place of another listen to the same groups.
    ///
    /// # Errors
    /// The errors of the stack's socket.
    pub(super) async fn join_again(&self, udp: &UdpSocket) -> io::Result<()> {
        for Member { group, on, excludes, senders } in &self.members {
            let (group, on) = (*group, *on);
            let join = |of| udp.join(Join { group, on, joins: true, of });
            match (*excludes, &senders[..]) {
                (true, senders) => {
                    join(Sender::Any).await?;
                    if !senders.is_empty() {
                        udp.set_filter((group, on), true, senders).await?;
                    }
                }
                (false, senders) => {
                    for sender in senders {
                        join(Sender::Only(*sender)).await?;
                    }
                }
            }
        }
        match self.by {
            Some(link) => udp.send_groups_by(link).await,
            None => Ok(()),
        }
    }

    /// Returns the filter of a group: whether its senders are excluded, and these. A link that was named otherwise when the group was
    /// joined is the only one.
    pub(super) fn filter(&self, group: IpAddr, on: Link) -> Option<(bool, &[IpAddr])> {
        let member = self.members.iter().find(|member| (member.group, member.on) == (group, on));
        let only = || {
            let mut others = self.members.iter().filter(|member| member.group == group);
            others.next().filter(|_| others.next().is_none())
        };
        member.or_else(only).map(|member| (member.excludes, &member.senders[..]))
    }

    /// Notes what the stack has done.
    pub(super) fn note(&mut self, done: &Join) {
        let &Join { group, on, joins, of } = done;
        let before = self.filter(group, on).map(|(excludes, senders)| (excludes, senders.to_vec()));
        let (excludes, sender) = match of {
            Sender::Only(sender) => (false, Some(sender)),
            Sender::AllBut(sender) => (true, Some(sender)),
            _ => (joins, None),
        };
        let mut senders = before.map_or(Vec::new(), |(_, senders)| senders);
        if let Some(sender) = sender {
            senders.retain(|known| *known != sender);
            senders.extend(joins.then_some(sender));
        } else {
            senders.clear();
        }
        self.set(group, on, excludes, senders);
    }

    /// Sets a filter; one that includes no sender leaves the group.
    pub(super) fn set(&mut self, group: IpAddr, on: Link, excludes: bool, senders: Vec<IpAddr>) {
        let exact = self.members.iter().position(|member| (member.group, member.on) == (group, on));
        let at = exact.or_else(|| self.members.iter().position(|member| member.group == group));
        let is_member = excludes || !senders.is_empty();
        match at {
            Some(at) if !is_member => drop(self.members.remove(at)),
            Some(at) if exact.is_some() || self.filter(group, on).is_some() => {
                (self.members[at].excludes, self.members[at].senders) = (excludes, senders);
            }
            _ if is_member => self.members.push(Member { group, on, excludes, senders }),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    #[test]
    fn filters_are_those_that_the_program_has_set() {
        let group: IpAddr = [239, 1, 2, 3].into();
        let [one, two]: [IpAddr; 2] = [[192, 0, 2, 1].into(), [192, 0, 2, 2].into()];
        let on = |ifindex| Link { addr: Ipv4Addr::UNSPECIFIED.into(), ifindex };
        let mut groups = Groups::default();
        let join = |joins, of| Join { group, on: on(1), joins, of };
        assert_eq!(groups.filter(group, on(1)), None);
        groups.note(&join(true, Sender::Any));
        assert_eq!(groups.filter(group, on(0)), Some((true, &[][..])), "it is the only link");
        groups.note(&join(true, Sender::AllBut(one)));
        groups.note(&join(true, Sender::AllBut(two)));
        groups.note(&join(false, Sender::AllBut(one)));
        assert_eq!(groups.filter(group, on(1)), Some((true, &[two][..])));
        groups.set(group, on(1), false, vec![one, two]);
        assert_eq!(groups.filter(group, on(1)), Some((false, &[one, two][..])));
        groups.note(&join(false, Sender::Only(one)));
        groups.note(&join(false, Sender::Only(two)));
        assert_eq!(groups.filter(group, on(1)), None, "it has left with the last one");
        groups.note(&join(true, Sender::Any));
        groups.note(&join(false, Sender::Any));
        assert_eq!(groups.filter(group, on(1)), None);
    }
}
