//! Writing and removing under good and bad directories.

use super::*;

struct Place {
    directory: tempfile::TempDir,
    roots: Roots,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let roots = Roots {
        cdi: directory.path().join("cdi"),
        metadata: directory.path().join("deep/metadata"),
    };
    Place { directory, roots }
}

fn file(base: Base, path: &str, bytes: &str) -> PlannedFile {
    let path = PlannedPath { base, path: path.to_owned() };
    PlannedFile { path, mode: 0o644, bytes: bytes.as_bytes().to_vec() }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn missing_directories_are_made_and_nothing_but_the_files_is_left() {
    let Place { roots, directory: _kept } = place();
    let files =
        [file(Base::Metadata, "u1/pair.json", "{}"), file(Base::Cdi, "u1.json", "{\"a\":1}")];
    apply(&files, &roots, Durability::Kept).unwrap();
    assert_eq!(names(&roots.cdi), ["u1.json"]);
    assert_eq!(names(&roots.metadata.join("u1")), ["pair.json"]);
    assert_eq!(fs::read_to_string(roots.cdi.join("u1.json")).unwrap(), "{\"a\":1}");
    assert_eq!(mode_of(&roots.cdi.join("u1.json")), 0o644);
}

#[test]
fn a_file_is_replaced_and_an_equal_one_is_left_alone() {
    use std::os::unix::fs::MetadataExt;
    let Place { roots, directory: _kept } = place();
    let path = roots.cdi.join("u1.json");
    let inode = || fs::metadata(&path).unwrap().ino();
    apply(&[file(Base::Cdi, "u1.json", "one")], &roots, Durability::Kept).unwrap();
    let first = inode();
    apply(&[file(Base::Cdi, "u1.json", "one")], &roots, Durability::Kept).unwrap();
    assert_eq!(inode(), first);
    apply(&[file(Base::Cdi, "u1.json", "two")], &roots, Durability::Kept).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "two");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    apply(&[file(Base::Cdi, "u1.json", "two")], &roots, Durability::Kept).unwrap();
    assert_eq!(mode_of(&path), 0o644);
}

#[test]
fn a_link_is_replaced_and_not_followed() {
    let Place { roots, directory } = place();
    let victim = directory.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    fs::create_dir(&roots.cdi).unwrap();
    for link in ["u1.json", ".u1.json.lanemate-tmp"] {
        std::os::unix::fs::symlink(&victim, roots.cdi.join(link)).unwrap();
    }
    apply(&[file(Base::Cdi, "u1.json", "precious")], &roots, Durability::Kept).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(fs::symlink_metadata(roots.cdi.join("u1.json")).unwrap().is_file());
    assert_eq!(names(&roots.cdi), ["u1.json"]);
}

#[test]
fn a_target_that_is_a_directory_is_an_error_that_names_path_and_step_and_leaves_nothing() {
    let Place { roots, directory: _kept } = place();
    fs::create_dir_all(roots.cdi.join("u1.json/full")).unwrap();
    let error = apply(&[file(Base::Cdi, "u1.json", "x")], &roots, Durability::Kept).unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("rename to /") && message.contains("/cdi/u1.json: "), "{message}");
    assert_eq!(names(&roots.cdi), ["u1.json"]);
}

#[test]
fn when_one_file_fails_those_made_before_it_are_gone_and_those_there_before_stay() {
    let Place { roots, directory: _kept } = place();
    let old = file(Base::Metadata, "u1/old", "x");
    apply(std::slice::from_ref(&old), &roots, Durability::Kept).unwrap();
    fs::create_dir_all(roots.cdi.join("u1.json")).unwrap();
    let files = [old, file(Base::Metadata, "u2/new", "x"), file(Base::Cdi, "u1.json", "x")];
    let error = apply(&files, &roots, Durability::Kept).unwrap_err();
    assert_eq!(error.step, "rename to");
    assert_eq!(names(&roots.metadata), ["u1"]);
    assert_eq!(names(&roots.metadata.join("u1")), ["old"]);
    let outside = [file(Base::Metadata, "u2/new", "x"), file(Base::Cdi, "../x", "x")];
    assert_eq!(apply(&outside, &roots, Durability::Kept).unwrap_err().step, "locate");
    assert_eq!(names(&roots.metadata), ["u1"]);
}

#[test]
fn a_root_that_is_a_file_is_an_error() {
    let Place { roots, directory: _kept } = place();
    fs::write(&roots.cdi, "").unwrap();
    let error = apply(&[file(Base::Cdi, "u1.json", "x")], &roots, Durability::Kept).unwrap_err();
    assert!(error.to_string().contains("/cdi"), "{error}");
}

#[test]
fn a_directory_that_may_not_be_written_is_an_error() {
    let Place { roots, directory: _kept } = place();
    fs::create_dir(&roots.cdi).unwrap();
    fs::set_permissions(&roots.cdi, Permissions::from_mode(0o555)).unwrap();
    // Root may write anywhere.
    if File::create(roots.cdi.join("probe")).is_ok() {
        return;
    }
    let error = apply(&[file(Base::Cdi, "u1.json", "x")], &roots, Durability::Kept).unwrap_err();
    assert_eq!((error.step, error.error.kind()), ("create", io::ErrorKind::PermissionDenied));
}

#[test]
fn paths_that_leave_their_directory_are_refused() {
    let Place { roots, directory } = place();
    for path in ["../out", "/etc/passwd", "a/../../out", "", ".", ".."] {
        let planned = file(Base::Cdi, path, "x");
        assert_eq!(
            apply(std::slice::from_ref(&planned), &roots, Durability::Kept).unwrap_err().step,
            "locate",
            "{path}"
        );
        assert_eq!(remove([&planned.path], &roots).unwrap_err().step, "locate", "{path}");
    }
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn removal_takes_empty_directories_along_and_may_be_repeated() {
    let Place { roots, directory: _kept } = place();
    let files = [
        file(Base::Metadata, "u1/a.json", "a"),
        file(Base::Metadata, "u1/b.json", "b"),
        file(Base::Metadata, "u2/a.json", "a"),
        file(Base::Cdi, "u1.json", "c"),
    ];
    apply(&files, &roots, Durability::Kept).unwrap();
    let of_first = [&files[0].path, &files[3].path];
    remove(of_first, &roots).unwrap();
    remove(of_first, &roots).unwrap();
    assert_eq!(names(&roots.metadata.join("u1")), ["b.json"]);
    remove([&files[1].path, &files[2].path], &roots).unwrap();
    assert_eq!(names(&roots.metadata), [""; 0]);
    assert_eq!(names(&roots.cdi), [""; 0]);
}

#[test]
fn removal_where_no_directory_is_left_is_no_error() {
    let Place { roots, directory: _kept } = place();
    remove([&file(Base::Metadata, "u1/a.json", "").path], &roots).unwrap();
}

#[test]
fn removal_of_a_directory_in_the_place_of_a_file_is_an_error() {
    let Place { roots, directory: _kept } = place();
    fs::create_dir_all(roots.cdi.join("u1.json")).unwrap();
    let error = remove([&file(Base::Cdi, "u1.json", "").path], &roots).unwrap_err();
    assert_eq!(error.step, "remove");
}

#[test]
fn what_a_dead_writer_left_is_overwritten_and_swept() {
    let Place { roots, directory: _kept } = place();
    fs::create_dir(&roots.cdi).unwrap();
    for name in [".u1.json.lanemate-tmp", ".u2.json.lanemate-tmp", "other.json", ".other.tmp"] {
        fs::write(roots.cdi.join(name), "half").unwrap();
    }
    apply(&[file(Base::Cdi, "u1.json", "whole")], &roots, Durability::Kept).unwrap();
    sweep(&roots.cdi).unwrap();
    assert_eq!(names(&roots.cdi), [".other.tmp", "other.json", "u1.json"]);
    sweep(&roots.metadata).unwrap();
}
