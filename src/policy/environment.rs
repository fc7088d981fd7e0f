//! Variables that change what a program runs: which file, which library, which hook, which
//! settings that name any of them.
//!
//! What is refused by itself is a hurdle: programs are inventive, and no list of theirs is complete.
//! The wall is a list of the user's own ([`Variables`]).

pub(super) mod lists;

use super::paths::Flavour;
use lists::{
    ANY_CASE_PREFIXES, EXCEPTIONS, HARD_NAMES, HARD_PREFIXES, LAST_WORDS, NAMES, PLACES, PREFIXES,
    SUFFIXES, WORDS,
};

/// The variables that a caller may set or unset, and no others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variables(Vec<String>);

impl Variables {
    /// Names, and beginnings with a `*` behind them. Tells what is wrong with the first that cannot
    /// be allowed.
    pub fn new(entries: &[String]) -> Result<Self, String> {
        for entry in entries {
            let (name, any) = parts(entry);
            if name.contains(['*', '=']) {
                return Err(format!(
                    "{entry:?}: a name holds no =, and * stands at its end, for any rest"
                ));
            }
            if let Some(hard) = covered(&fold(name), any) {
                return Err(format!(
                    "{entry:?} would allow {hard}, which makes any program run something else; name the variables \
                     that are needed, without that one"
                ));
            }
        }
        Ok(Self(entries.to_vec()))
    }

    /// The entries as they were written.
    pub(super) fn texts(&self) -> impl Iterator<Item = &String> {
        self.0.iter()
    }

    fn allow(&self, name: &str, flavour: Flavour) -> bool {
        let name = as_read(name, flavour);
        self.0.iter().any(|entry| {
            let (own, any) = parts(entry);
            let own = as_read(own, flavour);
            if any {
                name.starts_with(&own)
            } else {
                name == own
            }
        })
    }
}

/// The first of these variables that a caller may neither set nor unset. Unsetting changes what
/// runs just as well: where a setting was, there is none.
pub(super) fn first_refused<'a>(
    names: impl IntoIterator<Item = &'a str>,
    allowed: Option<&Variables>,
    flavour: Flavour,
) -> Option<&'a str> {
    names.into_iter().find(|name| match allowed {
        Some(allowed) => is_hard(name, flavour) || !allowed.allow(name, flavour),
        None => is_refused(name, flavour),
    })
}

/// The name without the star that may end it, and whether there was one.
fn parts(entry: &str) -> (&str, bool) {
    match entry.strip_suffix('*') {
        Some(beginning) => (beginning, true),
        None => (entry, false),
    }
}

/// What an entry would allow that nobody may set. In any case: nobody needs one that differs from
/// such a name by that alone.
fn covered(name: &str, any: bool) -> Option<String> {
    let covers = |hard: &str| name == hard || (any && hard.starts_with(name));
    let hard = HARD_NAMES.iter().find(|hard| covers(hard));
    let beginning = HARD_PREFIXES
        .iter()
        .find(|hard| name.starts_with(**hard) || (any && hard.starts_with(name)));
    hard.map(|hard| (*hard).to_owned())
        .or_else(|| beginning.map(|hard| format!("{hard}*")))
}

fn is_hard(name: &str, flavour: Flavour) -> bool {
    let name = &*as_read(name, flavour);
    HARD_NAMES.contains(&name) || HARD_PREFIXES.iter().any(|hard| name.starts_with(hard))
}

fn is_refused(name: &str, flavour: Flavour) -> bool {
    if is_hard(name, flavour) || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return true;
    }
    let folded = fold(name);
    let read = &*as_read(name, flavour);
    let by_beginning = ANY_CASE_PREFIXES
        .iter()
        .any(|prefix| folded.starts_with(prefix))
        || PREFIXES.iter().any(|prefix| read.starts_with(prefix));
    NAMES.contains(&read) || ((by_beginning || says_so(&folded)) && !EXCEPTIONS.contains(&read))
}

/// Whether a name says by itself that it is of a kind that changes what runs.
fn says_so(name: &str) -> bool {
    let mut thing = name;
    while let Some((before, place)) = thing.rsplit_once('_')
        && PLACES.contains(&place)
    {
        thing = before;
    }
    let last = thing.rsplit('_').next().unwrap_or(thing);
    let ends = |suffix: &&str| name.ends_with(*suffix) || thing.ends_with(*suffix);
    SUFFIXES.iter().any(ends)
        || LAST_WORDS.contains(&last)
        || name.split('_').any(|word| WORDS.contains(&word))
        // As in `.netrc`; a source is none.
        || (last.ends_with("RC") && last != "SRC")
}

/// A name as the system compares it.
fn as_read(name: &str, flavour: Flavour) -> String {
    match flavour {
        Flavour::Unix => name.to_owned(),
        Flavour::Windows => fold(name),
    }
}

/// There and back again: letters of other alphabets that fold to one of ours.
fn fold(name: &str) -> String {
    name.to_uppercase().to_lowercase().to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::Flavour::{Unix, Windows};
    use super::*;

    #[test]
    fn what_changes_what_runs_is_refused() {
        for name in [
            "PATH",
            "LD_PRELOAD",
            "LD_AUDIT",
            "DYLD_INSERT_LIBRARIES",
            "BASH_ENV",
            "ENV",
            "BASH_FUNC_ls%%",
            "NODE_OPTIONS",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "PERL5OPT",
            "RUBYOPT",
            "JAVA_TOOL_OPTIONS",
            "_JAVA_OPTIONS",
            "GIT_SSH_COMMAND",
            "GIT_EXTERNAL_DIFF",
            "GIT_PAGER",
            "GIT_CONFIG_COUNT",
            "PAGER",
            "AWS_PAGER",
            "EDITOR",
            "KUBE_EDITOR",
            "SUDO_ASKPASS",
            "BROWSER",
            "COMSPEC",
            "PATHEXT",
            "HOME",
            "XDG_CONFIG_HOME",
            "npm_config_script_shell",
            "NPM_CONFIG_PREFIX",
            "Npm_Config_Node_Options",
            "CARGO_BUILD_RUSTC_WRAPPER",
            "ESBUILD_BINARY_PATH",
            "SIDECAR_ALLOWED_EXECUTABLES",
            "MSBuildSDKsPath",
            "DOTNET_STARTUP_HOOKS",
        ] {
            assert!(is_refused(name, Unix), "{name}");
            assert!(is_refused(name, Windows), "{name}");
        }
    }

    #[test]
    fn what_programs_are_configured_with_is_not() {
        for name in [
            "PORT",
            "HOST",
            "NODE_ENV",
            "RUST_LOG",
            "DEBUG",
            "TERM",
            "LANG",
            "DATABASE_URL",
            "PYTHONUNBUFFERED",
            "DOTNET_ENVIRONMENT",
            "ASPNETCORE_URLS",
            "GIT_AUTHOR_NAME",
            "MY_PATH",
            "ENVIRONMENT",
            "HOMEPAGE",
            "RAILS_ENV",
            "NO_COLOR",
            "CI",
            "TMPDIR",
            "TZ",
            "LOG_LEVEL",
            "LOG_FILE",
            "LOG_PATH",
            "APP_ENV",
            "DATA_DIR",
            "SECRET_KEY",
            "API_KEY",
            "BASE_URL",
            "REDIS_PREFIX",
            "CACHE_DRIVER",
            "LLM_PROVIDER",
            "SLACK_WEBHOOK",
            "USER_AGENT",
            "PGHOST",
            "MYSQL_ROOT_PASSWORD",
            "NEXT_PUBLIC_API",
            "VITE_API_URL",
            "FLASK_DEBUG",
            "MIX_ENV",
            "TRUST_PROXY",
            "FEATURE_FLAGS",
            "RUST_BACKTRACE",
            "CHOKIDAR_USEPOLLING",
            "FORCE_COLOR",
            "SRC",
            "display",
        ] {
            assert!(!is_refused(name, Unix), "{name}");
            assert!(!is_refused(name, Windows), "{name}");
        }
    }

    #[test]
    fn case_counts_where_the_system_counts_it() {
        for name in [
            "Path",
            "path",
            "PathExt",
            "ld_debug",
            "gopath",
            "node_path",
            "\u{17f}ystemroot",
        ] {
            assert!(is_refused(name, Windows), "{name}");
        }
        for name in ["Path", "path", "PathExt", "ld_debug", "gopath", "node_path"] {
            assert!(!is_refused(name, Unix), "{name}");
        }
        // Who reads these is not known, so neither is the case that counts.
        for name in [
            "https_proxy",
            "shell_escape",
            "my_command",
            "Msbuildsdkspath",
        ] {
            assert!(is_refused(name, Unix), "{name}");
        }
        assert!(!is_refused("PythonUnbuffered", Windows));
    }

    #[test]
    fn every_exception_is_one() {
        for name in EXCEPTIONS {
            let covered = PREFIXES
                .iter()
                .chain(ANY_CASE_PREFIXES)
                .any(|prefix| name.starts_with(prefix));
            assert!(covered || says_so(name), "{name}");
            assert!(!is_refused(name, Unix), "{name}");
        }
    }

    fn variables(entries: &[&str]) -> Result<Variables, String> {
        let entries: Vec<_> = entries.iter().map(ToString::to_string).collect();
        Variables::new(&entries)
    }

    #[test]
    fn a_list_of_ones_own_is_all_that_may_be_set() {
        let allowed = variables(&["PORT", "APP_*", "APP2_CONFIG", "FLASK_APP"]).unwrap();
        let refused = |name, flavour| first_refused([name], Some(&allowed), flavour).is_some();
        for name in ["PORT", "APP_", "APP_CONFIG", "APP2_CONFIG", "FLASK_APP"] {
            assert!(!refused(name, Unix), "{name}");
        }
        for name in [
            "HOST",
            "PORT2",
            "POR",
            "AP",
            "port",
            "App_x",
            "",
            "LD_PRELOAD",
        ] {
            assert!(refused(name, Unix), "{name}");
        }
        assert!(!refused("port", Windows) && !refused("App_x", Windows));
        assert_eq!(
            first_refused(["PORT", "B", "C"], Some(&allowed), Unix),
            Some("B")
        );
    }

    #[test]
    fn nobody_can_allow_what_makes_any_program_another() {
        for entry in [
            "PATH",
            "Path",
            "LD_PRELOAD",
            "ld_x",
            "LD_*",
            "L*",
            "*",
            "NODE_*",
            "NODE_OPTIONS",
            "GIT_*",
            "GIT_CONFIG_COUNT",
            "BASH_FUNC_x%%",
            "DYLD_INSERT*",
            "PYTHON*",
            "PAGER",
            "SIDECAR_X",
            "ENV*",
            "npm_config_script_shell",
            "P*",
            "A=B",
            "a*b",
            "**",
        ] {
            let error = variables(&["PORT", entry]).unwrap_err();
            assert!(error.contains(&format!("{entry:?}")), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        // The rest is the user's decision.
        variables(&[
            "HOME",
            "APP_CONFIG",
            "DOCKER_*",
            "ENVIRONMENT",
            "PG*",
            ".SHELLFLAGS",
        ])
        .unwrap();
    }

    #[test]
    fn every_variable_of_make_is_refused() {
        // From `make -p`, GNU Make 4.3.
        for name in [
            ".SHELLFLAGS",
            ".LIBPATTERNS",
            "AR",
            "ARFLAGS",
            "AS",
            "CC",
            "CHECKOUT,v",
            "CO",
            "COFLAGS",
            "COMPILE.c",
            "COMPILE.cc",
            "CPP",
            "CTANGLE",
            "CURDIR",
            "CWEAVE",
            "CXX",
            "F77",
            "F77FLAGS",
            "FC",
            "GET",
            "LD",
            "LEX",
            "LEX.l",
            "LINK.c",
            "LINK.o",
            "LINT",
            "LINT.c",
            "M2C",
            "MAKE",
            "MAKEFILES",
            "MAKEFILE_LIST",
            "MAKEFLAGS",
            "MAKEINFO",
            "MAKE_COMMAND",
            "MAKE_HOST",
            "MAKE_VERSION",
            "OBJC",
            "OUTPUT_OPTION",
            "PC",
            "PREPROCESS.S",
            "RM",
            "SHELL",
            "SUFFIXES",
            "TANGLE",
            "TEX",
            "TEXI2DVI",
            "WEAVE",
            "YACC",
            "YACC.y",
            "LDLIBS",
            "LOADLIBES",
            "TARGET_ARCH",
            "TARGET_MACH",
            "CFLAGS",
            "ASFLAGS",
            "LFLAGS",
            "YFLAGS",
            "RFLAGS",
            "GNUMAKEFLAGS",
            "MAKEOVERRIDES",
            "VPATH",
            "GPATH",
            "MAKESHELL",
        ] {
            assert!(is_refused(name, Unix), "{name}");
        }
    }

    #[test]
    fn what_an_attacker_found_is_refused() {
        for name in [
            "DBUS_SESSION_BUS_ADDRESS",
            "PREFIX",
            "RUSTFMT",
            "TERRAFORM_CONFIG",
            "APT_CONFIG",
            "SYSTEM_WGETRC",
            "ZIP",
            "SSH_SK_HELPER",
            "GNUPGHOME",
            "TCL_LIBRARY",
            "PYENV_HOOK_PATH",
            "_PYTHON_SYSCONFIGDATA_NAME",
            "https_proxy",
            "HTTPS_PROXY",
            "All_Proxy",
            "REQUESTS_CA_BUNDLE",
            "COMPOSE_FILE",
            "CONTAINERS_CONF",
            "CONTAINER_HOST",
            "KUBECTL_EXTERNAL_DIFF",
            "NAPI_RS_NATIVE_LIBRARY_PATH",
            "PRISMA_QUERY_ENGINE_LIBRARY",
            "NODE_CONFIG_DIR",
            "NODE_BINDINGS_COMPILED_DIR",
            "SPEC_OPTS",
            "IPYTHONDIR",
            "PYLINTRC",
            "JUPYTER_CONFIG_DIR",
            "HARNESS_PERL",
            "HARNESS_PERL_SWITCHES",
            "PYENV_ROOT",
            "RBENV_ROOT",
            "ASDF_DATA_DIR",
            "VOLTA_HOME",
            "NVM_DIR",
            "PROTOC",
            "CMAKE",
            "LIBCLANG_PATH",
            "HOST_CC",
            "TARGET_CC",
            "RANLIB",
            "M4",
            "CCACHE_PREFIX",
            "CCACHE_COMPILER",
            "CCC_OVERRIDE_OPTIONS",
            "MIX_EXS",
            "MONO_ENV_OPTIONS",
            "COMPlus_GCName",
            "IBM_JAVA_OPTIONS",
            "JAVACMD",
            "SSH_PKCS11_HELPER",
            "SSH_SK_PROVIDER",
            "LESSEDIT",
            "LESSGLOBALTAGS",
            "MANOPT",
            "BAT_OPTS",
            "BORG_PASSCOMMAND",
            "KRB5_CONFIG",
            "shell_escape",
            "SSL_CERT_FILE",
            "CURL_CA_BUNDLE",
        ] {
            assert!(is_refused(name, Unix), "{name}");
            assert!(is_refused(name, Windows), "{name}");
        }
    }

    #[test]
    fn the_page_for_people_has_the_whole_list() {
        let page = include_str!("../../SECURITY.md");
        for (list, before, after) in [
            (HARD_NAMES, "", ""),
            (HARD_PREFIXES, "", "*"),
            (NAMES, "", ""),
            (PREFIXES, "", "*"),
            (ANY_CASE_PREFIXES, "", "*"),
            (SUFFIXES, "*", ""),
            (LAST_WORDS, "*_", ""),
            (WORDS, "*_", "_*"),
            (PLACES, "_", ""),
            (EXCEPTIONS, "", ""),
        ] {
            for name in list {
                let item = format!("`{before}{name}{after}`");
                assert!(page.contains(&item), "{item} is not in SECURITY.md");
            }
        }
    }
}
