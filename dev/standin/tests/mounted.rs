//! Tests the stand-in from the outside: mounted, with several clients.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Instant;

use haul_testkit::rustix::fs::{
    AtFlags, RenameFlags, XattrFlags, fgetxattr, fsetxattr, getxattr, linkat, listxattr, renameat_with,
    setxattr,
};
use haul_testkit::rustix::io::Errno;
use haul_testkit::{Standin, libc, require, standin};

const LOV: &CStr = c"lustre.lov";

fn start(clients: usize, options: &[&str]) -> std::io::Result<Standin> {
    Standin::start_program(Path::new(env!("CARGO_BIN_EXE_haul-standin")), clients, options)
}

/// Returns a plain layout as a client requests it.
fn asked(stripe_bytes: u32, count: u16, first: u16) -> Vec<u8> {
    let mut out = vec![0xd0, 0x0b, 0xd1, 0x0b, 1, 0, 0, 0];
    out.resize(24, 0);
    out.extend(stripe_bytes.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(first.to_le_bytes());
    out
}

fn read_layout(path: &Path) -> Result<Vec<u8>, Errno> {
    let mut room = [0; 4096];
    getxattr(path, LOV, &mut room[..]).map(|length| room[..length].to_vec())
}

fn create_delayed(path: &Path) -> std::io::Result<File> {
    let flags = libc::O_NOCTTY | libc::O_ASYNC;
    OpenOptions::new().write(true).create_new(true).custom_flags(flags).open(path)
}

#[test]
fn clients_see_each_others_files() {
    require!(standin::needed());
    let standin = start(2, &[]).unwrap();
    let (here, there) = (standin.client(0), standin.client(1));
    fs::create_dir_all(here.join("a/b")).unwrap();
    fs::write(here.join("a/b/f"), "first").unwrap();
    assert_eq!(fs::read(there.join("a/b/f")).unwrap(), b"first");
    fs::write(there.join("a/b/f"), "and then second").unwrap();
    assert_eq!(fs::read(here.join("a/b/f")).unwrap(), b"and then second");
    assert_eq!(
        fs::metadata(here.join("a/b/f")).unwrap().ino(),
        fs::metadata(there.join("a/b/f")).unwrap().ino()
    );
    // Both clients write to parts of the same file.
    let (one, other) =
        (File::create(here.join("parts")).unwrap(), OpenOptions::new().write(true).open(there.join("parts")));
    other.unwrap().write_all_at(&[2; 1000], 3_000_000).unwrap();
    one.write_all_at(&[1; 1000], 0).unwrap();
    let mut whole = Vec::new();
    File::open(here.join("parts")).unwrap().read_to_end(&mut whole).unwrap();
    assert_eq!((whole.len(), whole[0], whole[1000], whole[3_000_999]), (3_001_000, 1, 0, 2));
}

#[test]
fn what_cp_does_works() {
    require!(standin::needed());
    let standin = start(1, &[]).unwrap();
    let root = standin.client(0);
    let at = |name: &str| root.join(name);
    fs::write(at("f"), vec![7; 100_000]).unwrap();
    fs::hard_link(at("f"), at("g")).unwrap();
    assert_eq!(fs::metadata(at("f")).unwrap().nlink(), 2);
    std::os::unix::fs::symlink("f", at("s")).unwrap();
    assert_eq!(fs::read_link(at("s")).unwrap(), Path::new("f"));
    fs::set_permissions(at("f"), fs::Permissions::from_mode(0o4751)).unwrap();
    assert_eq!(fs::metadata(at("f")).unwrap().mode() & 0o7777, 0o4751);
    std::os::unix::fs::chown(at("f"), Some(12), Some(34)).unwrap();
    let after = fs::metadata(at("f")).unwrap();
    assert_eq!((after.uid(), after.gid(), after.mode() & 0o7777), (12, 34, 0o751));
    setxattr(at("f"), "user.x", b"value", XattrFlags::empty()).unwrap();
    let mut room = [0; 100];
    assert_eq!(getxattr(at("f"), "user.x", &mut room[..]).unwrap(), 5);
    fs::create_dir(at("d")).unwrap();
    fs::write(at("d/e"), "").unwrap();
    assert_eq!(fs::remove_dir(at("d")).unwrap_err().raw_os_error(), Some(libc::ENOTEMPTY));
    fs::rename(at("d"), at("d2")).unwrap();
    let cwd = haul_testkit::rustix::fs::CWD;
    assert_eq!(renameat_with(cwd, at("f"), cwd, at("s"), RenameFlags::NOREPLACE), Err(Errno::EXIST));
    renameat_with(cwd, at("f"), cwd, at("new"), RenameFlags::NOREPLACE).unwrap();
    let mut names: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["d2", "g", "new", "s"]);
    // Removed while open.
    let mut open = File::open(at("g")).unwrap();
    fs::remove_file(at("g")).unwrap();
    fs::remove_file(at("new")).unwrap();
    let mut whole = Vec::new();
    open.read_to_end(&mut whole).unwrap();
    assert_eq!(whole, vec![7; 100_000]);
    let file = File::create(at("sparse")).unwrap();
    file.set_len(10 << 20).unwrap();
    file.write_all_at(b"data", 5 << 20).unwrap();
    let mut file = File::open(at("sparse")).unwrap();
    assert!(file.metadata().unwrap().blocks() * 512 < 1 << 20);
    assert_eq!(
        haul_testkit::rustix::fs::seek(&file, haul_testkit::rustix::fs::SeekFrom::Data(0)),
        Ok(5 << 20)
    );
    assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), 10 << 20);
}

#[test]
fn files_without_a_name_get_one_or_vanish() {
    require!(standin::needed());
    let unnamed = |root: &Path| {
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(root)
    };
    let standin = start(2, &["--unnamed-files"]).unwrap();
    let (here, there) = (standin.client(0), standin.client(1));
    let mut file = unnamed(&here).unwrap();
    file.write_all(&vec![7; 3_000_000]).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    assert_eq!(fs::read_dir(&there).unwrap().count(), 0);
    let cwd = haul_testkit::rustix::fs::CWD;
    linkat(&file, "", cwd, there.join("elsewhere"), AtFlags::EMPTY_PATH).unwrap_err();
    linkat(&file, "", cwd, here.join("name"), AtFlags::EMPTY_PATH).unwrap();
    assert_eq!(linkat(&file, "", cwd, here.join("name"), AtFlags::EMPTY_PATH), Err(Errno::EXIST));
    drop(file);
    assert_eq!(fs::metadata(there.join("name")).unwrap().nlink(), 1);
    assert_eq!(fs::read(there.join("name")).unwrap(), vec![7; 3_000_000]);
    drop(unnamed(&here).unwrap());
    assert_eq!(fs::read_dir(&there).unwrap().count(), 1);
    assert_eq!(standin.count("metadata.tmpfile").unwrap(), 2);
    // Without the option, it is like a file system that can't.
    let standin = start(1, &[]).unwrap();
    assert_eq!(unnamed(&standin.client(0)).unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
}

#[test]
fn layouts_are_set_once_and_read_back() {
    require!(standin::needed());
    let standin = start(1, &["--targets=4"]).unwrap();
    let path = standin.client(0).join("f");
    let file = create_delayed(&path).unwrap();
    assert_eq!(read_layout(&path), Err(Errno::NODATA));
    assert_eq!(file.write_all_at(b"x", 0).unwrap_err().raw_os_error(), Some(libc::EBADF));
    fsetxattr(&file, LOV, &asked(2 << 20, 9, 2), XattrFlags::empty()).unwrap();
    let mut room = [0; 4096];
    let length = fgetxattr(&file, LOV, &mut room[..]).unwrap();
    // Nine were requested, but there are only four; the objects follow, starting at target 2.
    assert_eq!(length, 32 + 4 * 24);
    assert_eq!(room[24..30], [0, 0, 0x20, 0, 4, 0]);
    let targets: Vec<_> = (0..4).map(|index| room[32 + index * 24 + 20]).collect();
    assert_eq!(targets, [2, 3, 0, 1]);
    assert_eq!(fgetxattr(&file, LOV, &mut room[..length - 1]), Err(Errno::RANGE));
    fsetxattr(&file, LOV, &asked(1 << 20, 1, 0), XattrFlags::empty()).unwrap();
    assert_eq!(read_layout(&path).unwrap().len(), length);
    let wrong =
        fsetxattr(create_delayed(&path.with_extension("g")).unwrap(), LOV, b"nonsense", XattrFlags::empty());
    assert_eq!(wrong, Err(Errno::INVAL));
}

#[test]
fn new_files_get_the_layout_of_their_directory() {
    require!(standin::needed());
    let standin = start(1, &["--targets=4"]).unwrap();
    let directory = standin.client(0).join("d");
    fs::create_dir(&directory).unwrap();
    assert_eq!(read_layout(&directory), Err(Errno::NODATA));
    setxattr(&directory, LOV, &asked(1 << 16, 2, 0xffff), XattrFlags::empty()).unwrap();
    assert_eq!(read_layout(&directory).unwrap(), asked(1 << 16, 2, 0xffff));
    fs::create_dir(directory.join("below")).unwrap();
    fs::write(directory.join("below/f"), vec![1; 1 << 18]).unwrap();
    let layout = read_layout(&directory.join("below/f")).unwrap();
    assert_eq!((layout.len(), layout[28]), (32 + 2 * 24, 2));
    let written: Vec<_> =
        (0..4).map(|target| standin.count(&format!("target.{target}.written")).unwrap()).collect();
    assert_eq!(written, [1 << 17, 1 << 17, 0, 0]);
    let mut names = [0; 1000];
    let length = listxattr(directory.join("below/f"), &mut names[..]).unwrap();
    assert!(names[..length].split(|byte| *byte == 0).any(|name| name == b"lustre.lov"));
    assert_eq!(standin.count("metadata.mkdir").unwrap(), 2);
}

#[test]
fn faults_strike_one_client_only() {
    require!(standin::needed());
    let standin = start(2, &[]).unwrap();
    standin.fail("1 write bad EIO\n").unwrap();
    for (client, name, works) in [(0, "bad", true), (1, "good", true), (1, "bad2", false)] {
        let mut file = File::create(standin.client(client).join(name)).unwrap();
        assert_eq!(file.write_all(b"x").is_ok(), works, "{client} {name}");
    }
    standin.fail("").unwrap();
    fs::write(standin.client(1).join("bad3"), "x").unwrap();
}

#[test]
fn rates_hold() {
    require!(standin::needed());
    let options = ["--targets=2", "--target-rate=40MB", "--client-rate=50MB", "--stripe-count=2"];
    let standin = start(2, &options).unwrap();
    let write = |client: usize, megabytes: u64| {
        let file = File::create(standin.client(client).join(format!("f{client}"))).unwrap();
        for number in 0..megabytes {
            file.write_all_at(&vec![1; 1 << 20], number << 20).unwrap();
        }
    };
    // One client is limited by its own rate, two by that of the targets.
    let begin = Instant::now();
    write(0, 10);
    let one = (10 << 20) as f64 / begin.elapsed().as_secs_f64();
    assert!(one < 55e6, "{one}");
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| write(0, 20));
        scope.spawn(|| write(1, 20));
    });
    let both = (40 << 20) as f64 / begin.elapsed().as_secs_f64();
    assert!(both < 84e6, "{both}");
}

#[test]
fn the_pace_can_be_left() {
    require!(standin::needed());
    let standin = start(1, &["--targets=1", "--client-rate=1MB"]).unwrap();
    setxattr(standin.client(0), "user.standin.pace", b"off", XattrFlags::empty()).unwrap();
    let begin = Instant::now();
    // With pacing, this takes 80 seconds.
    fs::write(standin.client(0).join("f"), vec![1; 80 << 20]).unwrap();
    assert!(begin.elapsed().as_secs_f64() < 40.0);
}
