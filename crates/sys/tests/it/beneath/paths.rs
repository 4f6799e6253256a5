//! The table of paths that try to escape or to block the caller.

use super::scene::LINKS;
use std::collections::BTreeSet;

/// Spellings of "one up" that some program accepts.
const DOTS: &[&str] = &[
    "..",
    "../",
    "..//",
    ".././",
    "./..",
    ".//../",
    "..\\",
    "..\\..\\",
    ".\\..\\",
    "%2e%2e",
    "%2e%2e/",
    "%2E%2E%2F",
    "..%2f",
    "..%2F..%2F",
    ".%2e/",
    "%2e./",
    "..%5c",
    "%252e%252e%252f",
    "..%252f",
    "%c0%ae%c0%ae/",
    "%c0%ae%c0%ae%c0%af",
    "..%c0%af",
    "..%c1%9c",
    "%uff0e%uff0e/",
    "\u{ff0e}\u{ff0e}/",
    "\u{2024}\u{2024}/",
    "\u{2025}/",
    "..\u{2215}",
    "..\u{2044}",
    "..\u{ff0f}",
    "..\u{200b}/",
    "\u{200b}../",
    "..\u{202e}/",
    ".. /",
    " ../",
    "..\t/",
    "..\n/",
    "..\r/",
    "..;/",
    "..;a=b/",
    "..::$DATA/",
    "...",
    ".../",
    "..../",
    "....//",
    ".../...//",
    "~/",
    "~root/",
    "$HOME/",
    "${HOME}/",
    "`pwd`/",
    "$(pwd)/",
    "file://",
    "file:///",
    "\\\\?\\",
    "C:\\",
    "C:/",
];

/// Targets outside the root.
const WISHES: &[&str] =
    &["", "outside/x", "outside/secret-of-outside.txt", "etc/passwd", "base-sibling/x"];

/// Targets behind a link.
const BEHIND: &[&str] =
    &["", "/", "/.", "/x", "/secret-of-outside.txt", "/dir/inner", "/new.txt", "/plain.txt"];

/// `@` stands for the name of the scene's folder.
const SINGLE: &[&str] = &[
    "/",
    "//",
    "///",
    "/.",
    "/..",
    "/../..",
    "/etc/passwd",
    "//etc/passwd",
    "/./etc/passwd",
    "/proc/self/root/etc/passwd",
    "/proc/self/environ",
    "/dev/zero",
    "/dev/stdin",
    "@/outside/x",
    "@/outside/secret-of-outside.txt",
    "@/base-sibling/x",
    "@/base/../outside/x",
    "@/base/plain.txt",
    "@/base",
    "\0",
    "\0/",
    "plain.txt\0",
    "plain.txt\0.png",
    "\0plain.txt",
    "sub\0/../../outside/x",
    "sub/\0",
    "../outside/x\0",
    "link-sibling\0/x",
    "pipe",
    "pipe/",
    "pipe/x",
    "./pipe",
    "socket",
    "socket/x",
    "device-null",
    "device-null/x",
    "device-zero",
    "device-zero/..",
    "hard",
    "hard/",
    "hard/x",
    "chain-45",
    "chain-45/x",
    "chain-41",
    "chain-40",
    "plain.txt/..",
    "plain.txt/../../outside/x",
    "plain.txt/.",
    "plain.txt/x",
    "sub/link-back",
    "sub/link-back/x",
    "sub/link-back/secret-of-outside.txt",
    "sub/link-back/../outside/x",
    "sub/link-back/dir/inner",
    "base",
    "base/../outside/x",
    "base-sibling/x",
    "-rf",
    "--help",
    "-",
    "*",
    "sub/*",
    "{sub,../outside}/x",
    "sub/x;cat ../outside/x",
    "sub/x|../outside/x",
    "CON",
    "NUL",
    "aux.txt",
    "sub:x",
    "plain.txt:stream",
];

pub(super) fn hostile() -> BTreeSet<String> {
    let mut paths: BTreeSet<String> = SINGLE.iter().map(|path| (*path).to_owned()).collect();
    for dots in DOTS {
        for wish in WISHES {
            paths.insert(format!("{dots}{wish}"));
        }
        paths.insert(format!("sub/{dots}/{dots}/outside/x"));
        paths.insert(format!("sub/deep/{}outside/x", dots.repeat(3)));
    }
    for many in [2, 3, 7, 20, 100, 1000] {
        for wish in WISHES {
            paths.insert(format!("{}{wish}", "../".repeat(many)));
        }
    }
    for (name, _) in LINKS {
        for behind in BEHIND {
            paths.insert(format!("link-{name}{behind}"));
        }
        paths.insert(format!("./sub/../link-{name}/x"));
    }
    paths.insert("n".repeat(256));
    paths.insert("n".repeat(5000));
    paths.insert("sub/".repeat(2000));
    paths.insert("a/".repeat(4000));
    paths.insert(format!("sub/{}x", "./".repeat(3000)));
    paths
}

/// Below these kernel folders nothing is a file on a disk, and some links lead to objects instead
/// of paths.
pub(super) const OF_THE_KERNEL: &[(&str, &[&str])] = &[
    (
        "/proc",
        &[
            "self/root/etc/passwd",
            "self/root/etc",
            "self/root",
            "self/cwd/Cargo.toml",
            "self/cwd",
            "self/exe",
            "self/fd/0",
            "self/fd/1",
            "self/fd/2",
            "self/ns/mnt",
            "self/mem",
            "self/environ",
            "self/maps",
            "self/status",
            "self/task/self/root/etc/passwd",
            "thread-self/root/etc/passwd",
            "thread-self/cwd",
            "1/root/etc/passwd",
            "kmsg",
            "kcore",
            "kallsyms",
            "sysrq-trigger",
            "sys/kernel/core_pattern",
            "sys/kernel/hostname",
            "mounts",
        ],
    ),
    (
        "/dev",
        &[
            "null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "stdin",
            "stdout", "stderr", "fd/0", "fd/1", "core", "pts/ptmx", "mem", "kmsg",
        ],
    ),
    ("/sys", &["kernel/notes", "power/state", "kernel/uevent_helper", "class/net/lo/address"]),
];
