//! Tests of agreements: records, purposes, and the number of messages.

use super::*;
use crate::tree::{Location, trees};

fn record() -> Record {
    let proposal = Proposal { value: !3, basis: 9, acknowledged: 2 };
    let decision = AgreedBits { view: 9, value: 5, even: true, lost: 7, acknowledged: 3 };
    let previous = AgreedBits { view: 8, value: 1, even: false, lost: 16_383, acknowledged: 1 };
    let which = Which { team: 0xfeed, number: 12, gate: 4 };
    Record { which, phase: AgreementPhase::Held, view: 77, proposal, decision, previous }
}

#[test]
fn a_record_survives_its_words() {
    for phase in [
        AgreementPhase::Gathered,
        AgreementPhase::Locked,
        AgreementPhase::Held,
        AgreementPhase::Done,
    ] {
        let record = Record { phase, ..record() };
        assert_eq!(Record::of(record.words()), Some(record));
    }
    assert_eq!(Record::of([0; WORDS]), None, "nobody showed anything");
}

#[test]
fn words_of_two_records_are_none() {
    let (one, other) = (record().words(), Record { view: 78, ..record() }.words());
    for cut in 0..WORDS {
        let torn: [u64; WORDS] =
            std::array::from_fn(|at| if at < cut { one[at] } else { other[at] });
        let whole = torn == one || torn == other;
        assert_eq!(Record::of(torn).is_some(), whole, "cut at {cut}");
    }
}

#[test]
fn a_member_with_another_purpose_does_not_agree() {
    let among = |me: usize| {
        let tree = match me {
            0 => Tree { children: vec![Pe(1)], ..Tree::default() },
            _ => Tree { parent: Some(Pe(0)), ..Tree::default() },
        };
        LivingMembers { view: 1, tells: tree.children.clone(), tree, lost: 0 }
    };
    let begin = |gate, me| {
        let which = Which { team: 1, number: 1, gate };
        let mut own =
            Agreement::begin(which, Proposal::default(), AgreedBits::default(), among(me));
        let news = own.advance();
        (own, news)
    };
    let ((mut here, news), (there, _)) = (begin(0, 0), begin(1, 1));
    assert!(news.is_none() && here.awaited() == [Pe(1)]);
    here.observe(Pe(1), there.record());
    assert!(here.advance().is_none() && here.decision().is_none());
    here.observe(Pe(1), begin(0, 1).0.record());
    assert_eq!(here.advance(), Some(Readers { parent: false, children: true }));
}

/// Members of an agreement, with what each has published.
struct Team {
    members: Vec<Agreement>,
    shown: Vec<Option<Record>>,
    messages: Vec<usize>,
}

impl Team {
    fn begin(places: &[Option<Location>]) -> Team {
        let which = Which { team: 1, number: 1, gate: 0 };
        let begin = |(member, narrow): (usize, Tree)| {
            let own = Proposal { value: !(1 << (member % 64)), basis: 7, acknowledged: 0 };
            let tree = narrow.with_flat_nodes(Pe::of(member), places);
            let among = LivingMembers { view: 1, tree, tells: narrow.children, lost: 0 };
            Agreement::begin(which, own, AgreedBits::default(), among)
        };
        let members: Vec<Agreement> = trees(places).into_iter().enumerate().map(begin).collect();
        let (shown, messages) = (vec![None; members.len()], vec![0; members.len()]);
        Team { members, shown, messages }
    }

    /// Lets a member look once. Returns the members that it tells, and its record.
    fn look(&mut self, at: usize) -> Option<(Vec<Pe>, Record)> {
        let member = &mut self.members[at];
        for other in member.awaited().to_vec() {
            self.shown[other.at()].iter().for_each(|shown| member.observe(other, shown));
        }
        let readers = member.advance()?;
        let told: Vec<Pe> = member.told(readers).collect();
        self.messages[at] += told.len();
        Some((told, *member.record()))
    }

    /// Lets all members look that were told, in steps, until all have decided. Returns the
    /// number of steps.
    fn agrees(&mut self) -> u32 {
        let mut next: Vec<usize> = (0..self.members.len()).collect();
        for step in 1.. {
            let news: Vec<_> = next.iter().filter_map(|&at| Some((at, self.look(at)?))).collect();
            if news.is_empty() {
                return step;
            }
            let told = news.iter().flat_map(|(_, (told, _))| told.iter().map(|pe| pe.at()));
            next = told.collect::<std::collections::BTreeSet<usize>>().into_iter().collect();
            news.into_iter().for_each(|(at, (_, record))| self.shown[at] = Some(record));
        }
        unreachable!("a step is the last")
    }
}

#[test]
fn messages_of_a_member_do_not_grow_with_the_number_of_members() {
    let shapes = [(64, 64, 1), (16, 4, 1), (1000, 16, 4), (10_000, 64, 2), (10_000, 1, 1)];
    for (members, per_node, per_machine) in shapes {
        let place = |member: usize| {
            let node = (member / per_node) as u32;
            Some(Location { machine: node / per_machine, node })
        };
        let mut team = Team::begin(&(0..members).map(place).collect::<Vec<_>>());
        let steps = team.agrees();
        let value = if members < 64 { u64::MAX << members } else { 0 };
        let expected = AgreedBits { view: 1, value, even: true, lost: 0, acknowledged: 0 };
        assert!(team.members.iter().all(|member| member.decision() == Some(expected)));
        let most = *team.messages.iter().max().expect("there are some");
        println!("{members} members: at most {most} messages, {steps} steps");
        assert!(most <= 13 && steps <= 4 * (3 + members.ilog2()), "{members}: {most} {steps}");
    }
}
