//! The boundaries between the modules, read off their `use` lines.

use std::collections::BTreeMap;
use std::path::Path;

/// From the top down: a module may use what stands below it, never what stands above.
const LAYERS: [&[&str]; 12] = [
    &["cli"],
    &["doctor"],
    &["mcp"],
    &["supervisor"],
    &["process"],
    &["output", "config"],
    &["policy"],
    &["guard"],
    &["audit"],
    &["guard/protocol"],
    &["time", "expression"],
    &["platform"],
];

/// The one place for a crate, and the places that must do without one.
const ONLY_IN: [(&str, &[&str]); 3] = [
    ("rmcp", &["mcp"]),
    ("lexopt", &["cli"]),
    ("rustix", &["platform"]),
];
const NOT_IN: [(&str, &[&str]); 2] = [
    (
        "tokio",
        &[
            "audit",
            "guard",
            "policy",
            "output",
            "config",
            "process/command",
            "process/state",
            "process/load",
            "doctor",
        ],
    ),
    (
        "serde_json",
        &[
            "audit",
            "guard",
            "policy",
            "output",
            "config",
            "process",
            "supervisor",
            "platform",
        ],
    ),
];

fn sources() -> BTreeMap<String, String> {
    fn collect(dir: &Path, root: &Path, found: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                collect(&path, root, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).unwrap().with_extension("");
                let name = name.to_str().unwrap().replace('\\', "/");
                let text = std::fs::read_to_string(&path).unwrap();
                // Tests may use what they like.
                let code = text
                    .split("#[cfg(test)]\nmod tests")
                    .next()
                    .unwrap()
                    .to_owned();
                found.insert(name, code);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    collect(&root, &root, &mut found);
    found
}

fn is_in(module: &str, place: &str) -> bool {
    module == place
        || module
            .strip_prefix(place)
            .is_some_and(|rest| rest.starts_with('/'))
}

/// The lowest layer that a module belongs to.
fn layer(module: &str) -> Option<usize> {
    (0..LAYERS.len())
        .rev()
        .find(|layer| LAYERS[*layer].iter().any(|place| is_in(module, place)))
}

fn used<'a>(code: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    code.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(move |line| line.split(prefix).skip(1))
        .map(|rest| {
            rest.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
                .next()
                .unwrap()
        })
}

#[test]
fn modules_use_only_what_stands_below_them() {
    let sources = sources();
    assert!(sources.len() > 30, "{:?}", sources.keys());
    for (module, code) in &sources {
        let Some(own) = layer(module) else {
            assert!(
                ["main", "lib"].contains(&module.as_str()),
                "{module} has no layer"
            );
            continue;
        };
        for path in used(code, "crate::") {
            let target = path.replace("::", "/");
            let Some(used) = layer(&target) else { continue };
            // The platform and the protocol know each other's words: frames are what a host carries.
            let vocabulary = is_in(module, "platform") && target.starts_with("guard/protocol");
            assert!(
                used > own || target.starts_with(module.split('/').next().unwrap()) || vocabulary,
                "{module} uses {target}, which stands above it"
            );
        }
    }
}

#[test]
fn crates_stay_in_their_places() {
    for (module, code) in &sources() {
        for (name, places) in ONLY_IN {
            let prefix = format!("{name}::");
            let uses = used(code, &prefix).next().is_some();
            assert!(
                !uses || places.iter().any(|place| is_in(module, place)),
                "{module} uses {name}"
            );
        }
        for (name, places) in NOT_IN {
            let prefix = format!("{name}::");
            let uses = used(code, &prefix).next().is_some();
            assert!(
                !uses || !places.iter().any(|place| is_in(module, place)),
                "{module} uses {name}"
            );
        }
        let allowed = is_in(module, "platform");
        assert!(
            allowed || !code.contains("unsafe {"),
            "{module} holds unsafe code"
        );
    }
}
