//! Teams: queries and splits.

use std::ffi::{c_int, c_long, c_void};

use super::claims::read_at;
use super::constants::TEAM_NUM_CONTEXTS;
use super::setup::pointer_on;
use crate::openshmem::check::misuse;
use crate::openshmem::group::SyncPoint;
use crate::openshmem::memory::address::{In, Out, SymIn};
use crate::openshmem::split::{self, TeamPart, destroy, row_and_column};
use crate::openshmem::team::{Team, contexts, index_of, members, to_world};
use raidshmem_runtime::pgas;

/// `shmem_team_config_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct TeamConfig {
    num_contexts: c_int,
}

/// The return value of calls that report failure.
const FAILED: c_int = -1;

/// Runs `split` for C: writes the new teams, or invalid ones.
fn split_for<const N: usize>(
    call: &'static str,
    parent: Team,
    parts: [(TeamPart, Out<Team>); N],
) -> c_int {
    let made = split::split(call, (parent, SyncPoint::Collective), parts.map(|(part, _)| part));
    let teams = made.unwrap_or([Team::INVALID; N]);
    parts.iter().zip(teams).for_each(|((_, new), team)| new.write(team));
    if made.is_ok() { 0 } else { FAILED }
}

/// Returns the number of contexts in a config; `name` is that of its mask.
fn contexts_of(call: &'static str, name: &str, config: In<TeamConfig>, mask: c_long) -> usize {
    if mask & !TEAM_NUM_CONTEXTS != 0 {
        misuse(call, format_args!("{name} {mask:#x}: expected SHMEM_TEAM_NUM_CONTEXTS"));
    }
    if mask == 0 {
        return 0;
    }
    if config.addr() == 0 {
        misuse(call, format_args!("the config is NULL, and {name} {mask:#x}"));
    }
    let asked = read_at(config, 0).num_contexts;
    match usize::try_from(asked) {
        Ok(contexts) => contexts,
        Err(_) => misuse(call, format_args!("num_contexts {asked}: expected 0 or more")),
    }
}

family! { TEAM: "Teams";
    ONE "shmem_team_my_pe" "" (team: Team) -> c_int {
        index_of(team, pgas::world().me())
    }
    ONE "shmem_team_n_pes" "" (team: Team) -> c_int {
        members(team).map_or(-1, |(_, _, size)| size as c_int)
    }
    ONE "shmem_team_get_config" ""
    (team: Team, config_mask: c_long, config: Out<TeamConfig>) -> c_int {
        if config_mask & !TEAM_NUM_CONTEXTS != 0 {
            let allowed = "expected SHMEM_TEAM_NUM_CONTEXTS";
            misuse(NAME, format_args!("config_mask {config_mask:#x}: {allowed}"));
        }
        if members(team).is_none() {
            return FAILED;
        }
        if config_mask != 0 {
            config.write(TeamConfig { num_contexts: contexts(team) as c_int });
        }
        0
    }
    ONE "shmem_team_translate_pe" ""
    (src_team: Team, src_pe: c_int, dest_team: Team) -> c_int {
        to_world(src_team, src_pe).map_or(-1, |pe| index_of(dest_team, pe))
    }
    ONE "shmem_team_split_strided" ""
    (parent_team: Team, start: c_int, stride: c_int, size: c_int, config: In<TeamConfig>,
     config_mask: c_long, new_team: Out<Team>) -> c_int {
        let part = TeamPart {
            start: start as isize,
            stride: stride as isize,
            size: usize::try_from(size).unwrap_or(0),
            num_contexts: contexts_of(NAME, "config_mask", config, config_mask),
        };
        split_for(NAME, parent_team, [(part, new_team)])
    }
    ONE "shmem_team_split_2d" ""
    (parent_team: Team, xrange: c_int, xaxis_config: In<TeamConfig>, xaxis_mask: c_long,
     xaxis_team: Out<Team>, yaxis_config: In<TeamConfig>, yaxis_mask: c_long,
     yaxis_team: Out<Team>) -> c_int {
        let contexts = [
            contexts_of(NAME, "xaxis_mask", xaxis_config, xaxis_mask),
            contexts_of(NAME, "yaxis_mask", yaxis_config, yaxis_mask),
        ];
        let index = usize::try_from(index_of(parent_team, pgas::world().me()));
        let xrange = usize::try_from(xrange).ok().filter(|xrange| *xrange > 0);
        let (Ok(index), Some(xrange), Some((_, _, size))) = (index, xrange, members(parent_team))
        else {
            xaxis_team.write(Team::INVALID);
            yaxis_team.write(Team::INVALID);
            return FAILED;
        };
        let [x, y] = row_and_column(index, size, xrange.min(size));
        let part = |(start, stride, size), num_contexts| {
            TeamPart { start, stride, size, num_contexts }
        };
        let parts = [(part(x, contexts[0]), xaxis_team), (part(y, contexts[1]), yaxis_team)];
        split_for(NAME, parent_team, parts)
    }
    ONE "shmem_team_destroy" "" (team: Team) {
        destroy(NAME, team)
    }
    ONE "shmem_team_ptr" "" (team: Team, dest: SymIn<c_void>, pe: c_int) -> *mut u8 {
        match to_world(team, pe) {
            Some(pe) => pointer_on(NAME, dest, pe.0.cast_signed()),
            None => std::ptr::null_mut(),
        }
    }
}
