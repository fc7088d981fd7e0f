//! Wine: runs the tests for Windows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::sh::at;
use super::{Result, say, sh};

/// Rust's library takes its random numbers from `ProcessPrng` of `bcryptprimitives.dll`, which
/// Debian's wine does not have. This is one, on top of what it has.
const RANDOM_DLL: &str = r"
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T size)
{
    const ULONG most = 1 << 24;
    for (; size > most; buffer += most, size -= most)
        if (!SystemFunction036(buffer, most))
            return FALSE;
    return SystemFunction036(buffer, (ULONG)size);
}

BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, LPVOID reserved)
{
    return TRUE;
}
";

fn prefix(home: &Path) -> PathBuf {
    home.join("wine")
}

/// What each program under wine, and wine itself, needs to find.
pub(super) fn environment(command: &mut Command, home: &Path) {
    command
        .env("WINEPREFIX", prefix(home))
        .env("WINEDEBUG", "-all")
        // Else it offers to download Mono and Gecko.
        .env("WINEDLLOVERRIDES", "mscoree,mshtml=")
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY");
}

/// Makes a Windows installation of our own, so that no user's is touched.
pub(super) fn install(home: &Path) -> Result<()> {
    let prefix = prefix(home);
    let stamp = prefix.join("xtask-installed");
    if stamp.exists() {
        return Ok(());
    }
    say("setting up wine");
    if prefix.exists() {
        at(&prefix, fs::remove_dir_all(&prefix))?;
    }
    at(&prefix, fs::create_dir_all(&prefix))?;
    call(home, "wineboot", &["-i"])?;
    provide_random(home)?;
    // It would say Windows 7, which Rust's library no longer supports.
    call(home, "wine", &["winecfg", "-v", "win10"])?;
    // Until then, not all of it is on disk.
    call(home, "wineserver", &["-w"])?;
    at(&stamp, fs::write(&stamp, ""))
}

fn provide_random(home: &Path) -> Result<()> {
    let dll = prefix(home).join("drive_c/windows/system32/bcryptprimitives.dll");
    if dll.exists() {
        return Ok(());
    }
    let source = home.join("random.c");
    at(&source, fs::write(&source, RANDOM_DLL))?;
    sh::quietly(
        Command::new("x86_64-w64-mingw32-gcc")
            .args(["-O2", "-s", "-shared", "-nostdlib", "-Wl,-eDllMain", "-o"])
            .arg(&dll)
            .arg(&source)
            .args(["-ladvapi32", "-lkernel32"]),
    )
}

fn call(home: &Path, program: &str, args: &[&str]) -> Result<()> {
    let mut command = Command::new(program);
    environment(command.args(args), home);
    sh::quietly(&mut command)
}
