//! Programs that were made for a terminal.

use serde_json::json;

use super::{PYTHON, need};
use crate::harness::Sidecar;
use crate::terminal::{on_terminal, press, reply, screen_when, screen_with};

#[test]
fn a_python_session_on_a_terminal() {
    need(PYTHON);
    let mut sidecar = Sidecar::new();
    let id = on_terminal(&mut sidecar, &format!("{PYTHON} -q"));
    sidecar.output_with(&id, ">>> ");
    reply(&mut sidecar, &id, "6 * 7", "^42");
    // Its line editor is at work: the last line comes back with a key.
    press(&mut sidecar, &id, "up");
    reply(&mut sidecar, &id, " + 1", "^43");
    reply(
        &mut sidecar,
        &id,
        "import sys; sys.stdout.isatty()",
        "^True",
    );
    press(&mut sidecar, &id, "ctrl-d");
    assert_eq!(sidecar.state(&id, "exited")["exitCode"], 0);
    sidecar.nothing_left();
}

#[test]
fn a_file_is_written_with_vi() {
    need("vi");
    let mut sidecar = Sidecar::new();
    let id = on_terminal(&mut sidecar, "vi -u NONE -N -i NONE poem.txt");
    screen_when(&mut sidecar, &id, "an empty file", |screen| {
        screen.contains("poem.txt") && screen.matches("\n~").count() == 22
    });
    sidecar.call(
        "send",
        json!({ "id": id, "input": "isnow ☃ 雪", "newline": false }),
    );
    screen_when(&mut sidecar, &id, "a poem", |screen| {
        screen.starts_with("snow ☃ 雪\n~") && screen.ends_with("-- INSERT --")
    });
    press(&mut sidecar, &id, "esc");
    screen_when(&mut sidecar, &id, "no mode", |screen| {
        !screen.contains("INSERT")
    });
    // Who waits is shown the screen, not how it was drawn.
    let told = json!({ "id": id, "input": ":set number", "wait": { "idle": 200 } });
    let told = sidecar.call("send", told);
    assert!(told.get("stdout").is_none(), "{told}");
    assert!(told["screen"].as_str().unwrap().contains("snow"), "{told}");
    sidecar.call("send", json!({ "id": id, "input": ":wq" }));
    sidecar.state(&id, "exited");
    let written = std::fs::read_to_string(sidecar.dir.path().join("poem.txt")).unwrap();
    assert_eq!(written, "snow ☃ 雪\n");
    // It has left the screen as it was.
    let output = sidecar.call("output", json!({ "id": id, "screen": true }));
    assert!(
        !output["screen"].as_str().unwrap().contains('~'),
        "{output}"
    );
}

#[test]
fn pages_are_turned_in_less() {
    need("less");
    let mut sidecar = Sidecar::new();
    let id = on_terminal(
        &mut sidecar,
        "seq 1 1000 > numbers; LESS= exec less numbers",
    );
    page(&mut sidecar, &id, "1", "23");
    press(&mut sidecar, &id, "pagedown");
    page(&mut sidecar, &id, "24", "46");
    // An arrow as it is while an application wants its own.
    press(&mut sidecar, &id, "down");
    page(&mut sidecar, &id, "25", "47");
    sidecar.call("send", json!({ "id": id, "input": "/^777$" }));
    page(&mut sidecar, &id, "777", "799");
    sidecar.call("send", json!({ "id": id, "input": "q", "newline": false }));
    sidecar.state(&id, "exited");
}

/// Waits for a page from this line to that one, with a line for commands below it.
#[track_caller]
fn page(sidecar: &mut Sidecar, id: &str, first: &str, last: &str) {
    screen_when(sidecar, id, first, |screen| {
        let lines: Vec<_> = screen.lines().collect();
        lines.len() == 24 && lines[0] == first && lines[22] == last
    });
}

#[test]
fn top_shows_its_table_in_the_window_that_it_has() {
    need("top");
    let mut sidecar = Sidecar::new();
    let command = json!({ "command": "exec top", "pty": { "rows": 10 } });
    let started = sidecar.call("start", command);
    let id = started["id"].as_str().unwrap().to_owned();
    full_screen(&mut sidecar, &id, 10);
    sidecar.call(
        "send",
        json!({ "id": id, "resize": { "cols": 120, "rows": 8 } }),
    );
    full_screen(&mut sidecar, &id, 8);
    sidecar.call("send", json!({ "id": id, "input": "q", "newline": false }));
    sidecar.state(&id, "exited");
}

/// Waits until top has drawn all of a screen.
#[track_caller]
fn full_screen(sidecar: &mut Sidecar, id: &str, rows: usize) {
    screen_when(sidecar, id, "a whole table", |screen| {
        screen.starts_with("top - ") && screen.lines().count() == rows
    });
}

#[test]
fn a_questionnaire_is_answered() {
    need("npm");
    let mut sidecar = Sidecar::new();
    std::fs::create_dir(sidecar.dir.path().join("demo")).unwrap();
    let started = sidecar.call(
        "start",
        json!({
            "command": "npm init", "cwd": sidecar.dir.path().join("demo"), "pty": true,
            "env": { "npm_config_update_notifier": false },
        }),
    );
    let id = started["id"].as_str().unwrap().to_owned();
    let question = json!(r"(: |\(.*\) )$");
    let asked = sidecar.call(
        "output",
        json!({ "id": id, "wait": { "pattern": "package name: .*\\) $" } }),
    );
    assert_eq!(asked["wait"], "pattern", "{asked}");
    let mut answer = "asked-and-answered";
    for _ in 0..20 {
        let told = sidecar.call(
            "send",
            json!({ "id": id, "input": answer, "wait": question }),
        );
        if told["state"] != "running" {
            break;
        }
        answer = "";
    }
    assert_eq!(sidecar.state(&id, "exited")["exitCode"], 0);
    let package = std::fs::read_to_string(sidecar.dir.path().join("demo/package.json")).unwrap();
    assert!(package.contains("\"asked-and-answered\""), "{package}");
}

/// A list with a cursor, a line drawn around it, and what was chosen.
const MENU: &str = r#"
import curses
def main(screen):
    curses.curs_set(0)
    items, at = ["bread", "milk", "日本茶"], 0
    while True:
        screen.erase()
        screen.border()
        screen.addstr(0, 2, " %dx%d " % (curses.COLS, curses.LINES))
        for n, item in enumerate(items):
            screen.addstr(2 + n, 4, ("> " if n == at else "  ") + item, curses.A_REVERSE if n == at else 0)
        screen.refresh()
        key = screen.getch()
        if key == curses.KEY_DOWN: at = min(at + 1, len(items) - 1)
        elif key == curses.KEY_UP: at = max(at - 1, 0)
        elif key == curses.KEY_RESIZE: curses.update_lines_cols()
        elif key in (10, 13): return items[at]
import locale; locale.setlocale(locale.LC_ALL, "")
print("chosen:", curses.wrapper(main))
"#;

#[test]
fn a_program_that_draws_a_menu_is_used() {
    need(PYTHON);
    // In each of the two ways to draw lines.
    for locale in ["C.UTF-8", "C"] {
        let mut sidecar = Sidecar::with(&[("LC_ALL", locale), ("PYTHONIOENCODING", "utf-8")]);
        std::fs::write(sidecar.dir.path().join("menu.py"), MENU).unwrap();
        let id = on_terminal(&mut sidecar, &format!("exec {PYTHON} menu.py"));
        screen_when(&mut sidecar, &id, "a menu", |screen| {
            screen.starts_with("┌─ 80x24 ─")
                && screen.contains("> bread")
                && screen.ends_with("──┘")
        });
        press(&mut sidecar, &id, "down");
        screen_with(&mut sidecar, &id, "> milk");
        sidecar.call(
            "send",
            json!({ "id": id, "resize": { "cols": 40, "rows": 10 } }),
        );
        screen_when(&mut sidecar, &id, "a smaller frame", |screen| {
            screen.contains(" 40x10 ") && screen.ends_with("──┘")
        });
        press(&mut sidecar, &id, "up");
        screen_with(&mut sidecar, &id, "> bread");
        press(&mut sidecar, &id, "enter");
        sidecar.output_with(&id, "chosen: bread");
        sidecar.state(&id, "exited");
    }
}
