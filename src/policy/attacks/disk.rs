//! Files that exist only here, of either kind of system.

use std::collections::BTreeMap;
use std::io;

use crate::guard::protocol::Identity;
use crate::policy::{FileSystem, Flavour};

#[derive(Debug, Clone)]
pub(super) struct FakeDisk {
    flavour: Flavour,
    nodes: BTreeMap<String, Node>,
}

#[derive(Debug, Clone, Copy)]
enum Node {
    Directory,
    Program,
    Text,
    Link(&'static str),
}

impl FakeDisk {
    /// One item a line: a path; `*` behind it makes it a program, `/` a directory, `-> x` a link.
    pub(super) fn new(flavour: Flavour, items: &'static str) -> Self {
        let mut nodes = BTreeMap::new();
        for item in items.lines().map(str::trim).filter(|item| !item.is_empty()) {
            let (path, node) = if let Some((path, target)) = item.split_once(" -> ") {
                (path, Node::Link(target))
            } else if let Some(path) = item.strip_suffix('*') {
                (path, Node::Program)
            } else if let Some(path) = item.strip_suffix('/') {
                (path, Node::Directory)
            } else {
                (item, Node::Text)
            };
            nodes.insert(path.to_owned(), node);
            // What it lies in exists too.
            let mut parent = flavour.parent(path);
            while let [_, .., b'/' | b'\\'] = parent.as_bytes() {
                parent = &parent[..parent.len() - 1];
                nodes.entry(parent.to_owned()).or_insert(Node::Directory);
                parent = flavour.parent(parent);
            }
        }
        Self { flavour, nodes }
    }

    fn node(&self, path: &str) -> Option<(&str, Node)> {
        let same = |(own, _): &(&String, &Node)| self.flavour.same(own, path);
        let (path, node) = self.nodes.iter().find(same)?;
        Some((path, *node))
    }
}

impl FileSystem for FakeDisk {
    fn canonical(&self, path: &str) -> io::Result<String> {
        let (separator, root) = match self.flavour {
            Flavour::Unix => ('/', ""),
            Flavour::Windows => ('\\', "C:"),
        };
        let normal = path.replace(['/', separator], "/");
        let rest = match normal.get(..root.len()) {
            Some(drive) if drive.eq_ignore_ascii_case(root) => &normal[root.len()..],
            _ => &normal,
        };
        let mut todo: Vec<String> = rest.rsplit('/').map(str::to_owned).collect();
        let mut done = root.to_owned();
        let mut links = 0;
        while let Some(part) = todo.pop() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    done.truncate(done.rfind(separator).unwrap_or(0));
                    continue;
                }
                _ => {}
            }
            let next = format!("{done}{separator}{part}");
            match self.node(&next).ok_or(io::ErrorKind::NotFound)? {
                (_, Node::Link(target)) => {
                    links += 1;
                    if links > 40 {
                        return Err(io::ErrorKind::InvalidInput.into());
                    }
                    if self.flavour.is_absolute(target) {
                        root.clone_into(&mut done);
                    }
                    todo.extend(target.rsplit('/').map(str::to_owned));
                }
                (_, Node::Program | Node::Text) if !todo.is_empty() => {
                    return Err(io::ErrorKind::NotADirectory.into());
                }
                (stored, _) => done = stored.to_owned(),
            }
        }
        Ok(if done.is_empty() { "/".into() } else { done })
    }

    fn locate(&self, path: &str) -> io::Result<(String, Option<Identity>)> {
        let path = self.canonical(path)?;
        let identity = self.identity(&path)?;
        Ok((path, identity))
    }

    fn is_executable(&self, path: &str) -> io::Result<bool> {
        let (_, node) = self.node(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(matches!(node, Node::Program))
    }

    fn identity(&self, path: &str) -> io::Result<Option<Identity>> {
        let at = self
            .nodes
            .keys()
            .position(|own| self.flavour.same(own, path));
        let inode = at.ok_or(io::ErrorKind::NotFound)? as u64;
        Ok(Some(Identity { device: 1, inode }))
    }
}
