//! What trees do to get away.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// One kind of tree.
#[derive(Debug)]
pub(super) struct Tree {
    /// For the table and the command line.
    pub(super) name: &'static str,
    /// A program that not every machine has.
    pub(super) needs: Option<&'static str>,
    /// How many processes have written themselves down once it stands.
    pub(super) members: usize,
    /// A shell script. `$M` makes a shell a member that sleeps; `$SELF` is this program, which as
    /// `doctor --act` leaves a group or a session.
    pub(super) script: &'static str,
    /// What it must have done before it ended: it was asked, and given time.
    pub(super) trace: Option<&'static str>,
    /// Between being asked and the forced end.
    pub(super) grace: &'static str,
}

/// A member that does nothing more.
pub(super) const MEMBER: &str = r#"echo >"$TREE/$$"; exec sleep 300"#;

/// One link of the chain of sessions.
pub(super) const LINK: &str = r#"echo >"$TREE/$$"
if [ "$1" -gt 1 ]; then "$SELF" doctor --act session sh -c "$LINK" sh $(($1 - 1)) & fi
exec sleep 300"#;

/// Where the members of this tree write themselves down.
pub(super) const DIRECTORY: &str = "TREE";

const PLAIN: Tree = Tree {
    name: "",
    needs: None,
    members: 2,
    script: "",
    trace: None,
    grace: "150",
};

/// All that is known to have escaped from somebody.
pub(super) const TREES: [Tree; 22] = [
    Tree {
        name: "plain child",
        script: r#"sh -c "$M" & eval "$M""#,
        ..PLAIN
    },
    Tree {
        name: "ignores TERM, INT and HUP",
        script: r#"trap '' TERM INT HUP; sh -c "$M" & eval "$M""#,
        ..PLAIN
    },
    Tree {
        name: "background job, leader gone",
        members: 1,
        script: r#"sh -c "$M" >/dev/null 2>&1 &"#,
        ..PLAIN
    },
    Tree {
        name: "holds the pipe, leader gone",
        members: 1,
        script: r#"sh -c "$M" &"#,
        ..PLAIN
    },
    Tree {
        name: "own process group",
        script: r#""$SELF" doctor --act group sh -c "$M" & eval "$M""#,
        ..PLAIN
    },
    Tree {
        name: "own session",
        script: r#""$SELF" doctor --act session sh -c "$M" & eval "$M""#,
        ..PLAIN
    },
    Tree {
        name: "daemon",
        script: r#"("$SELF" doctor --act session sh -c 'sh -c "$M" &' <&- >&- 2>&- &); eval "$M""#,
        ..PLAIN
    },
    Tree {
        name: "daemon, leader gone",
        members: 1,
        script: r#"("$SELF" doctor --act session sh -c 'sh -c "$M" &' <&- >&- 2>&- &)"#,
        ..PLAIN
    },
    Tree {
        name: "stubborn daemon, leader gone",
        members: 1,
        script: r#"trap '' TERM INT HUP; ("$SELF" doctor --act session sh -c 'sh -c "$M" &' <&- >&- 2>&- &)"#,
        ..PLAIN
    },
    Tree {
        name: "node, detached: true",
        needs: Some("node"),
        members: 1,
        script: r#"exec node -e 'require("child_process").spawn("sh", ["-c", process.env.M], { detached: true, stdio: "ignore" }).unref(); setInterval(() => {}, 1000)'"#,
        ..PLAIN
    },
    Tree {
        name: "chain of 100 sessions",
        members: 100,
        script: r#"exec sh -c "$LINK" sh 100"#,
        ..PLAIN
    },
    Tree {
        name: "100 sessions side by side",
        members: 101,
        script: r#"i=0; while [ $i -lt 100 ]; do "$SELF" doctor --act session sh -c "$M" & i=$((i + 1)); done; eval "$M""#,
        ..PLAIN
    },
    Tree {
        name: "forks and exits at full speed",
        members: 3,
        script: r#""$SELF" doctor --act hop & "$SELF" doctor --act hop & eval "$M""#,
        ..PLAIN
    },
    Tree {
        name: "closed everything",
        script: r#"exec 0<&- 1>&- 2>&-; sh -c "$M" & eval "$M""#,
        ..PLAIN
    },
    Tree {
        name: "cleared its environment",
        script: r#"env -i "$SELF" doctor --act session sh -c 'echo >"$0/$$"; exec sleep 300' "$TREE" & eval "$M""#,
        ..PLAIN
    },
    Tree {
        name: "stopped (SIGSTOP)",
        members: 3,
        script: r#"S='echo >"$TREE/$$"; kill -STOP $$; exec sleep 300'
sh -c "$S" & "$SELF" doctor --act session sh -c "$S" & eval "$S""#,
        ..PLAIN
    },
    Tree {
        name: "cleans up for a second",
        script: r#""$SELF" doctor --act session sh -c 'trap "sleep 1; sleep 1; echo >\"\$TREE/cleaned\"; exit" TERM
echo >"$TREE/$$"; while :; do sleep 0.05; done' & eval "$M""#,
        trace: Some("cleaned"),
        grace: "5000",
        ..PLAIN
    },
    Tree {
        name: "nested subreaper",
        script: r#"exec "$SELF" doctor --act reaper sh -c '("$SELF" doctor --act session sh -c "$M" &); eval "$M"'"#,
        ..PLAIN
    },
    Tree {
        name: "tini as subreaper",
        needs: Some("tini"),
        script: r#"exec tini -s -- sh -c '("$SELF" doctor --act session sh -c "$M" &); eval "$M"'"#,
        ..PLAIN
    },
    Tree {
        name: "dumb-init",
        needs: Some("dumb-init"),
        script: r#"exec dumb-init sh -c '("$SELF" doctor --act session sh -c "$M" &); eval "$M"'"#,
        ..PLAIN
    },
    Tree {
        name: "traced",
        needs: Some("strace"),
        script: r#"exec strace -f -o /dev/null sh -c 'sh -c "$M" & eval "$M"'"#,
        ..PLAIN
    },
    Tree {
        name: "pid namespace",
        needs: Some("unshare"),
        script: r#"exec unshare -r -p -f sh -c 'sh -c "$M" & eval "$M"'"#,
        ..PLAIN
    },
];

impl Tree {
    /// Whether this machine has what it needs.
    pub(super) fn can_stand(&self) -> bool {
        let Some(program) = self.needs else {
            return true;
        };
        let args: &[&str] = match program {
            // There, but not for everybody.
            "unshare" => &["-r", "-p", "-f", "true"],
            "strace" => &["-o", "/dev/null", "true"],
            _ => &["--version"],
        };
        Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }
}

/// Writes this process down as a member.
pub(super) fn register(kind: &str) -> Result<(), String> {
    let directory = std::env::var_os(DIRECTORY).ok_or("no tree")?;
    let file = PathBuf::from(directory).join(format!("{kind}-{}", std::process::id()));
    std::fs::write(file, "").map_err(|error| error.to_string())
}
