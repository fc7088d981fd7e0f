//! Variables that change what a program runs: which file, which library, which hook, which
//! settings that name any of them.
//!
//! The list is long because programs are inventive, and it is never complete. It is the same list
//! in `SECURITY.md`, which a test compares.

use super::paths::Flavour;

/// Refused by name.
#[rustfmt::skip]
pub(super) const NAMES: &[&str] = &[
    // What is found, and where settings are read.
    "PATH", "PATHEXT", "COMSPEC", "HOME", "HOMEDRIVE", "HOMEPATH", "USERPROFILE", "APPDATA",
    "LOCALAPPDATA", "PROGRAMDATA", "ALLUSERSPROFILE", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR",
    "PSMODULEPATH", "LIBPATH", "SHLIB_PATH", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH",
    // Shells.
    "SHELL", "ENV", "SHELLOPTS", "BASHOPTS", "IFS", "CDPATH", "FPATH", "ZDOTDIR", "INPUTRC",
    "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS4", "FCEDIT", "CONFIG_SHELL", "CONFIG_SITE",
    // Programs that other programs start.
    "VISUAL", "LESSOPEN", "LESSCLOSE", "LESS", "RSYNC_RSH", "RSYNC_CONNECT_PROG", "CVS_RSH",
    "SVN_SSH", "BORG_RSH", "RSH", "TAR_OPTIONS", "ZIPOPT", "UNZIP", "GREP_OPTIONS",
    "RIPGREP_CONFIG_PATH", "BAT_CONFIG_PATH", "WGETRC", "CURL_HOME", "ACKRC", "SCREENRC",
    "VIMINIT", "EXINIT", "MYVIMRC", "VIM", "VIMRUNTIME", "EMACSLOADPATH", "HGRCPATH", "HGMERGE",
    "KUBECONFIG", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AZURE_CONFIG_DIR", "PSQLRC",
    "PGSYSCONFDIR", "PGSERVICEFILE", "MYSQL_HOME", "LIBMYSQL_PLUGINS", "CHROME_BIN",
    "CHROME_PATH", "PUPPETEER_EXECUTABLE_PATH",
    // Compilers and build tools.
    "CC", "CXX", "CPP", "FC", "AR", "AS", "LD", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS",
    "COMPILER_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH", "MAKE", "MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "MAKEFILES", "M4PATH",
    "RUSTC", "RUSTDOC", "RUSTFLAGS", "RUSTDOCFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_BOOTSTRAP", "DEVELOPER_DIR", "SDKROOT", "TOOLCHAINS", "LLVM_PROFILE_FILE", "GOFLAGS",
    "GOROOT", "GOPATH", "GOBIN", "GOENV", "GOTOOLCHAIN", "GOTOOLDIR", "GOPROXY", "GOSUMDB",
    "GONOSUMDB", "GONOSUMCHECK", "GOINSECURE", "GOVCS", "GOWORK", "GOMODCACHE", "GOCACHE",
    "GOCACHEPROG", "GOAUTH",
    // Languages.
    "NODE_OPTIONS", "NODE_PATH", "NODE_REPL_EXTERNAL_MODULE", "NODE_REPL_HISTORY",
    "NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "NODE_V8_COVERAGE",
    "NODE_COMPILE_CACHE", "NODE_CHANNEL_FD", "NODE_REDIRECT_WARNINGS", "OPENSSL_CONF",
    "OPENSSL_MODULES", "OPENSSL_ENGINES", "SSLKEYLOGFILE", "JAVA_TOOL_OPTIONS", "JAVA_OPTS",
    "JAVA_HOME", "JRE_HOME", "CLASSPATH", "JVM_OPTS", "SBT_OPTS", "VIRTUAL_ENV", "FLASK_APP",
    "DJANGO_SETTINGS_MODULE", "GUNICORN_CMD_ARGS", "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "IRBRC",
    "RAKEOPT", "PHPRC", "PHP_INI_SCAN_DIR", "GUILE_LOAD_PATH", "GUILE_LOAD_COMPILED_PATH",
    "TCLLIBPATH", "GHCRTS", "CAML_LD_LIBRARY_PATH", "OCAMLPATH", "AWKPATH", "AWKLIBPATH",
    "ELIXIR_ERL_OPTIONS", "ASPNETCORE_HOSTINGSTARTUPASSEMBLIES",
    // Desktop libraries.
    "GTK_MODULES", "GTK_PATH", "GIO_EXTRA_MODULES", "GIO_MODULE_DIR", "GI_TYPELIB_PATH",
    "GDK_PIXBUF_MODULE_FILE", "QT_PLUGIN_PATH", "QT_QPA_PLATFORM_PLUGIN_PATH", "QML_IMPORT_PATH",
    "QML2_IMPORT_PATH",
];

/// Refused by their beginning.
#[rustfmt::skip]
pub(super) const PREFIXES: &[&str] = &[
    "LD_", "DYLD_", "_RLD", "BASH_", "XDG_", "TERMINFO", "LESSKEY", "SIDECAR_", "GIT_",
    "SSH_ASKPASS", "PYTHON", "PIP_", "PIPENV_", "UV_", "POETRY_", "CONDA_", "PERL", "RUBY",
    "GEM_", "BUNDLE_", "BUNDLER_", "COMPOSER_", "LUA_", "_JAVA", "JDK_JAVA", "MAVEN_", "MVNW_",
    "GRADLE_", "ANT_", "DOTNET_", "CORECLR_", "COR_", "NUGET_", "YARN_", "PNPM_", "BUN_", "DENO_",
    "COREPACK_", "TS_NODE_", "ELECTRON_", "PLAYWRIGHT_", "CARGO_", "RUSTUP_", "CGO_",
    "PKG_CONFIG", "CMAKE_", "R_PROFILE", "R_ENVIRON", "R_LIBS", "JULIA_", "ERL_", "GHC_",
    "STACK_", "CABAL_", "NIX_", "HOMEBREW_", "GST_PLUGIN", "NVIM_", "FZF_", "DOCKER_", "HELM_",
    "CLOUDSDK_", "TF_CLI_", "ANSIBLE_", "VAGRANT_", "VALGRIND_", "BABEL_",
];

/// Refused by their beginning in any case, since the programs that read them fold it.
#[rustfmt::skip]
pub(super) const ANY_CASE_PREFIXES: &[&str] = &[
    "NPM_", "MSBUILD", "CUSTOMBEFORE", "CUSTOMAFTER", "DIRECTORYBUILD",
];

/// Refused by their end: a program that another one starts.
#[rustfmt::skip]
pub(super) const SUFFIXES: &[&str] = &[
    "PAGER", "EDITOR", "ASKPASS", "BROWSER", "_BINARY", "_BINARY_PATH", "SAN_OPTIONS",
];

/// Allowed although a prefix covers them: they are common, and change no more than how a program
/// speaks.
#[rustfmt::skip]
pub(super) const EXCEPTIONS: &[&str] = &[
    "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING", "PYTHONUTF8",
    "PYTHONHASHSEED", "PYTHONFAULTHANDLER", "PYTHON_COLORS", "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_DATE", "GIT_TERMINAL_PROMPT", "CARGO_TERM_COLOR", "CARGO_TERM_QUIET",
    "CARGO_TERM_VERBOSE", "CARGO_TERM_PROGRESS_WHEN", "DOTNET_ENVIRONMENT", "DOTNET_NOLOGO",
    "DOTNET_CLI_TELEMETRY_OPTOUT", "DOTNET_USE_POLLING_FILE_WATCHER",
];

/// The first of these variables that a caller may neither set nor unset. Unsetting changes what
/// runs just as well: where a setting was, there is none.
pub(super) fn first_refused<'a>(
    names: impl IntoIterator<Item = &'a str>,
    flavour: Flavour,
) -> Option<&'a str> {
    names.into_iter().find(|name| is_refused(name, flavour))
}

fn is_refused(name: &str, flavour: Flavour) -> bool {
    let folded = name.to_uppercase().to_lowercase().to_uppercase();
    if ANY_CASE_PREFIXES
        .iter()
        .any(|prefix| folded.starts_with(prefix))
    {
        return true;
    }
    let name = match flavour {
        Flavour::Unix => name,
        Flavour::Windows => &folded,
    };
    NAMES.contains(&name)
        || SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
        || (PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && !EXCEPTIONS.contains(&name))
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
            "ld_preload",
            "node_options",
            "Pager",
            "\u{17f}hell",
        ] {
            assert!(is_refused(name, Windows), "{name}");
            assert!(!is_refused(name, Unix), "{name}");
        }
        assert!(!is_refused("PythonUnbuffered", Windows));
    }

    #[test]
    fn every_exception_is_one() {
        for name in EXCEPTIONS {
            assert!(
                PREFIXES.iter().any(|prefix| name.starts_with(prefix)),
                "{name}"
            );
            assert!(!is_refused(name, Unix), "{name}");
        }
    }

    #[test]
    fn the_page_for_people_has_the_whole_list() {
        let page = include_str!("../../SECURITY.md");
        let names = NAMES
            .iter()
            .chain(EXCEPTIONS)
            .map(|name| format!("`{name}`"));
        let begin = PREFIXES
            .iter()
            .chain(ANY_CASE_PREFIXES)
            .map(|name| format!("`{name}*`"));
        let end = SUFFIXES.iter().map(|name| format!("`*{name}`"));
        for item in names.chain(begin).chain(end) {
            assert!(page.contains(&item), "{item} is not in SECURITY.md");
        }
    }
}
