//! TCP options. A mutant's options have as many bytes as the original's, so that they still fill a header.

use super::packet::with_tcp;
use super::{Changes, Field, Role, Rules, around16, around32};
use crate::packet::{Cookie, Md5, SackBlock, TcpOption, TcpOptions};
use crate::script::At;

pub(super) fn options(changes: &mut Changes<'_>, options: &At<TcpOptions>, rules: &Rules) {
    let TcpOptions::List(list) = &options.value else { return };
    for (index, option) in list.iter().enumerate() {
        for now in instead(option, changes.role, rules) {
            let text = match now.as_slice() {
                [one] => format!("{} → {one}", option.value),
                _ => format!("{} → {} times nop", option.value, now.len()),
            };
            changes.add(option.pos, Field::TcpOption, text, |event| {
                with_tcp(event, |tcp| {
                    if let TcpOptions::List(list) = &mut tcp.options.value {
                        list.splice(index..=index, now.into_iter().map(|now| At::new(option.pos, now)));
                    }
                });
            });
        }
    }
    for (index, pair) in list.windows(2).enumerate() {
        let [first, second] = pair else { continue };
        if first.value == second.value {
            continue;
        }
        let text = format!("{},{} → {},{}", first.value, second.value, second.value, first.value);
        changes.add(first.pos, Field::TcpOption, text, |event| {
            with_tcp(event, |tcp| {
                if let TcpOptions::List(list) = &mut tcp.options.value {
                    list.swap(index, index + 1);
                }
            });
        });
    }
}

/// Returns the mutations of an option: itself with another value, and padding of its length.
fn instead(option: &TcpOption, role: Role, rules: &Rules) -> Vec<Vec<TcpOption>> {
    let one = |option| vec![option];
    let mut list: Vec<Vec<TcpOption>> = match option {
        TcpOption::Nop => return vec![one(TcpOption::Eol)],
        TcpOption::Eol => return vec![one(TcpOption::Nop)],
        TcpOption::SackPermitted | TcpOption::WindowScale(None) => Vec::new(),
        TcpOption::Mss(bytes) => around16(*bytes).map(|bytes| one(TcpOption::Mss(bytes))).into(),
        TcpOption::UserTimeout(field) => {
            around16(*field).map(|field| one(TcpOption::UserTimeout(field))).into()
        }
        TcpOption::WindowScale(Some(shift)) => [shift.wrapping_add(1), shift.wrapping_sub(1)]
            .map(|shift| one(TcpOption::WindowScale(Some(shift))))
            .into(),
        TcpOption::Sack(blocks) => {
            sack(blocks).into_iter().map(|blocks| one(TcpOption::Sack(blocks))).collect()
        }
        TcpOption::Timestamps { val, ecr, ecr_absolute } => {
            let ecr_absolute = *ecr_absolute;
            // what the stack's clock says is compared only if the script says how fast it runs
            let shift = if role == Role::Stimulus { Some(1) } else { rules.stamp_shift };
            let vals = shift.and_then(|shift| val.map(|val| val.wrapping_add(shift)));
            let vals = vals.map(|val| TcpOption::Timestamps { val: Some(val), ecr: *ecr, ecr_absolute });
            let ecrs = around32(*ecr).map(|ecr| TcpOption::Timestamps { val: *val, ecr, ecr_absolute });
            vals.into_iter().chain(ecrs).map(one).collect()
        }
        TcpOption::FastOpen(cookie) => other(cookie).map(TcpOption::FastOpen).map(one).into_iter().collect(),
        TcpOption::FastOpenExp(cookie) => {
            other(cookie).map(TcpOption::FastOpenExp).map(one).into_iter().collect()
        }
        TcpOption::Md5(md5) => {
            let now = if *md5 == Md5::Valid { Md5::Invalid } else { Md5::Valid };
            vec![one(TcpOption::Md5(now))]
        }
        TcpOption::AccEcn(counters) => (0..counters.len())
            .map(|index| {
                let mut counters = counters.clone();
                counters
                    .iter_mut()
                    .skip(index)
                    .take(1)
                    .for_each(|(_, bytes)| *bytes = (*bytes + 1) & 0xff_ffff);
                one(TcpOption::AccEcn(counters))
            })
            .collect(),
    };
    list.extend(option.len().map(|len| vec![TcpOption::Nop; len]));
    list
}

fn sack(blocks: &[SackBlock]) -> Vec<Vec<SackBlock>> {
    let edges = (0..blocks.len()).flat_map(|index| [(index, true), (index, false)]);
    edges
        .map(|(index, is_left)| {
            let mut blocks = blocks.to_vec();
            for block in blocks.iter_mut().skip(index).take(1) {
                let edge = if is_left { &mut block.left } else { &mut block.right };
                *edge = edge.wrapping_add(1);
            }
            blocks
        })
        .collect()
}

fn other(cookie: &Cookie) -> Option<Cookie> {
    let Cookie::Bytes(bytes) = cookie else { return None };
    let mut bytes = bytes.clone();
    *bytes.last_mut()? ^= 1;
    Some(Cookie::Bytes(bytes))
}
