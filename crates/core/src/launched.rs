//! Tasks of foreign launchers: srun, flux and mpirun start one process per intended PE, but without
//! oshrun each would be a job of one PE.
//!
//! Left out: what such a task should do instead.

/// Variables of a launcher: the number of tasks of a step, and the number of this task.
#[derive(Debug, PartialEq, Eq)]
struct Launcher {
    name: &'static str,
    tasks: &'static str,
    rank: &'static str,
    /// The command whose tasks find each other, followed by a comma, if there is one.
    with_pmi: &'static str,
}

/// The known launchers, sorted by priority: mpirun may use srun to start its daemons.
const LAUNCHERS: &[Launcher] = &[
    Launcher {
        name: "mpirun",
        tasks: "OMPI_COMM_WORLD_SIZE",
        rank: "OMPI_COMM_WORLD_RANK",
        with_pmi: "",
    },
    Launcher { name: "flux", tasks: "FLUX_JOB_SIZE", rank: "FLUX_TASK_RANK", with_pmi: "" },
    Launcher { name: "mpirun or srun", tasks: "PMI_SIZE", rank: "PMI_RANK", with_pmi: "" },
    Launcher {
        name: "srun",
        tasks: "SLURM_STEP_NUM_TASKS",
        rank: "SLURM_PROCID",
        with_pmi: "srun --mpi=pmi2, ",
    },
];

/// A task in a step of several tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}={tasks} and {}={rank}: {} started {tasks} tasks, and each would be a job of one PE: \
     expected {}oshrun -n {tasks} PROGRAM, or SHMEM_FT_SINGLETON=1",
    .launcher.tasks, .launcher.rank, .launcher.name, .launcher.with_pmi
)]
pub struct ForeignTask {
    launcher: &'static Launcher,
    tasks: u32,
    rank: u32,
}

/// Detects from its environment that this process is a task in a step of several. A batch script, a
/// shell in an allocation and a step of one task do not count.
pub fn task(variable: impl Fn(&str) -> Option<String>) -> Option<ForeignTask> {
    let number = |name: &str| variable(name)?.parse::<u32>().ok();
    LAUNCHERS.iter().find_map(|launcher| {
        let (tasks, rank) = (number(launcher.tasks)?, number(launcher.rank)?);
        (tasks > 1 && rank < tasks).then_some(ForeignTask { launcher, tasks, rank })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<String> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name);
        task(|name| value(name).map(|(_, value)| (*value).to_owned())).map(|task| task.to_string())
    }

    #[test]
    fn only_a_task_of_several_is_detected() {
        for Launcher { name, tasks, rank, .. } in LAUNCHERS {
            let line = of(&[(tasks, "4"), (rank, "3")]).expect("a task of four");
            let start = format!("{tasks}=4 and {rank}=3: {name} started 4 tasks, ");
            assert!(line.starts_with(&start) && line.contains("oshrun -n 4 PROGRAM"), "{line}");
            for other in [&[(*tasks, "1"), (*rank, "0")][..], &[(*tasks, "4")], &[(*rank, "0")]] {
                assert_eq!(of(other), None, "{other:?}");
            }
            assert_eq!(of(&[(tasks, "4"), (rank, "4")]), None, "of another step");
            assert_eq!(of(&[(tasks, "many"), (rank, "0")]), None);
        }
        // Batch scripts and salloc shells set only the first.
        assert_eq!(of(&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")]), None);
        assert_eq!(of(&[]), None);
    }
}
