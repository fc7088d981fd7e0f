//! How to add this server to each agent, ready to be copied.

use std::io::Write;
use std::path::Path;

use serde_json::json;

/// Writes what a user may paste, with this program's own path.
pub(super) fn write(out: &mut impl Write, program: &Path) -> std::io::Result<()> {
    let path = program.display().to_string();
    let quoted = quote(&path);
    let server = json!({ "mcpServers": { "sidecar": { "command": path } } });
    let opencode = json!({ "mcp": { "sidecar": { "type": "local", "command": [path] } } });
    let vscode = json!({ "name": "sidecar", "command": path }).to_string();
    writeln!(out, "\nAdd it to an agent:")?;
    writeln!(out, "  Claude Code   claude mcp add sidecar -- {quoted}")?;
    writeln!(out, "  Codex         codex mcp add sidecar -- {quoted}")?;
    writeln!(out, "  Gemini CLI    gemini mcp add sidecar {quoted}")?;
    writeln!(out, "  VS Code       code --add-mcp {}", quote(&vscode))?;
    writeln!(out, "  opencode      opencode.json: {opencode}")?;
    writeln!(out, "  Cursor        .cursor/mcp.json: {server}")?;
    writeln!(out, "  others        {server}")
}

/// As one word of a shell.
fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:\\".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into()
    } else if cfg!(windows) {
        format!("\"{}\"", text.replace('"', "\\\""))
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_gets_the_path_as_one_word() {
        let mut out = Vec::new();
        write(&mut out, Path::new("/opt/my tools/mcp-sidecar")).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("/opt/my tools/mcp-sidecar").count(), 7);
        assert!(cfg!(windows) || text.contains("-- '/opt/my tools/mcp-sidecar'"));
    }
}
