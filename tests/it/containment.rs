//! The kill matrix: nothing survives, whatever a tree does to get away and however it ends.

#![cfg(target_os = "linux")]

use std::process::Command;

use crate::harness::{clean, program};

const TREES: usize = 22;
const EVENTS: usize = 15;

#[test]
fn every_cell_of_the_kill_matrix_holds() {
    let mut command = Command::new(program());
    let output = clean(&mut command)
        .args(["doctor", "--containment"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    // Not every system lets a user make a namespace; the rest can be had everywhere.
    let not_tried = said.matches("not tried: ").count();
    let excused = said.matches("not tried: pid namespace").count();
    assert_eq!(not_tried, excused, "{said}");
    let cells = (TREES - excused) * EVENTS;
    assert!(
        said.contains(&format!("\n{cells} cells, 0 failed")),
        "{said}"
    );
    let times = said
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| tree"))
        .flat_map(|row| row.split('|').skip(2))
        .filter(|cell| cell.trim().parse::<u32>().is_ok());
    // What cannot be held is two cells at most.
    assert!(times.count() >= cells - 2, "{said}");
}

#[test]
fn a_tree_that_does_not_exist_is_named() {
    let output = clean(&mut Command::new(program()))
        .args(["doctor", "--containment", "oak"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success());
    assert!(
        said.contains("\"oak\"") && said.contains("plain child"),
        "{said}"
    );
}
