//! Identifies this build: messages have no versions, so all processes of a run must be the
//! same build.
//!
//! The id is a hash of the executable's length, first bytes and last bytes. The first page contains
//! the linker's build ID, a hash of the whole content. A program linked without one is still
//! distinguished by its length, headers and tables.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use xxhash_rust::xxh3::Xxh3;

/// Bytes hashed at each end.
const END_BYTES: usize = 64 << 10;

/// Returns the release and build id of this program.
pub(crate) fn own() -> &'static str {
    static OWN: OnceLock<String> = OnceLock::new();
    OWN.get_or_init(|| {
        // The running program, even if its path now names another file.
        let id = File::open("/proc/self/exe").and_then(|file| id(&file));
        let id = id.map_or_else(|error| format!("unknown: {error}"), |id| format!("{id:016x}"));
        format!("{} ({id})", env!("CARGO_PKG_VERSION"))
    })
}

fn id(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let mut hasher = Xxh3::new();
    hasher.update(&length.to_le_bytes());
    let mut bytes = vec![0; END_BYTES.min(usize::try_from(length).unwrap_or(END_BYTES))];
    for start in [0, length - bytes.len() as u64] {
        file.read_exact_at(&mut bytes, start)?;
        hasher.update(&bytes);
    }
    Ok(hasher.digest())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_differ_in_length_or_at_an_end_have_other_ids() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let id_of = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            id(&File::open(&path).unwrap()).unwrap()
        };
        let content = vec![7; 3 * END_BYTES];
        let changed = |at: usize| {
            let mut content = content.clone();
            content[at] = 8;
            content
        };
        let same = id_of(&content);
        assert_eq!(same, id_of(&content));
        assert_ne!(same, id_of(&content[1..]));
        assert_ne!(same, id_of(&changed(0)));
        assert_ne!(same, id_of(&changed(3 * END_BYTES - 1)));
        assert_ne!(id_of(b""), id_of(b"\0"));
    }
}
