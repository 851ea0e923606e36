//! Processes that leave their job's group, session and environment.

use guardian::{Family, Launch};

use crate::support::{Witness, attached, end, exclusive, guardians, shell};

#[tokio::test]
async fn nothing_detached_outlives_an_exclusive_family() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        for is_clean in [true, false] {
            let mut witness = Witness::new();
            let command = format!("{}; read line", witness.detached(is_clean));
            let launch = exclusive(shell("detaches", &command));
            let mut family = guardian.launch(launch).await.expect("a family");
            witness.knocked(1).await;
            close_input(&mut family);
            end(&mut family).await;
            assert!(!witness.is_held(), "a detached process is left in {mode}, clean: {is_clean}");
        }
    }
}

#[tokio::test]
async fn a_detached_process_of_an_ordinary_family_is_known_by_its_environment() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        let mut witness = Witness::new();
        let command = format!("{}; sleep 1000", witness.detached(false));
        let mut family = guardian.launch(shell("marks", &command)).await.expect("a family");
        witness.knocked(1).await;
        family.kill();
        end(&mut family).await;
        assert!(!witness.is_held(), "{mode}");
    }
}

#[tokio::test]
async fn a_stranger_is_spared_until_an_exclusive_family_ends() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        let mut witness = Witness::new();
        let command = format!("{}; sleep 1000", witness.detached(true));
        let mut family = guardian.launch(shell("daemon", &command)).await.expect("a family");
        witness.knocked(1).await;
        family.kill();
        end(&mut family).await;
        assert!(witness.is_held(), "an ordinary job may leave a daemon behind, in {mode}");
        let mut family = guardian.launch(exclusive(shell("strict", "exit 0"))).await.expect("a family");
        end(&mut family).await;
        assert!(!witness.is_held(), "{mode}");
    }
}

#[tokio::test]
async fn a_detached_process_of_another_family_is_left_alone() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        let mut witness = Witness::new();
        let command = format!("{}; sleep 1000", witness.detached(false));
        let mut first = guardian.launch(exclusive(shell("first", &command))).await.expect("a family");
        witness.knocked(1).await;
        let mut second = guardian.launch(exclusive(shell("second", "exit 0"))).await.expect("a family");
        end(&mut second).await;
        assert!(witness.is_held(), "{mode}");
        first.kill();
        end(&mut first).await;
        assert!(!witness.is_held(), "{mode}");
    }
}

/// A job whose leader makes a process its sibling (CLONE_PARENT), which runs this Perl text, and then ends with its input.
fn with_sibling(text: &str) -> Launch {
    let clone = if cfg!(target_arch = "x86_64") { 56 } else { 220 };
    let script = format!(
        "my $pid = syscall({clone}, 0x8000 | 17, 0, 0, 0, 0); die $! if $pid < 0;\n\
         if ($pid == 0) {{ {text} }}\n\
         <STDIN>;"
    );
    Launch { program: "perl".into(), args: vec!["-e".into(), script], ..shell("sibling", "") }
}

#[tokio::test]
async fn a_process_that_its_leader_made_its_sibling_is_found() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        let mut witness = Witness::new();
        let clean = "'setsid', 'env', '-i', \"PATH=$ENV{PATH}\"";
        let launch = with_sibling(&format!("exec {clean}, 'sh', '-c', '{} exec sleep 1000'", witness.hold()));
        let mut family = guardian.launch(exclusive(launch)).await.expect("a family");
        witness.knocked(1).await;
        close_input(&mut family);
        assert_eq!(end(&mut family).await.code, Some(0), "{mode}");
        assert!(!witness.is_held(), "{mode}");
    }
}

#[tokio::test]
async fn a_family_has_ended_only_when_the_slowest_of_its_group_is_gone() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        let mut witness = Witness::new();
        // A killed process gives its memory back before its open files: much of it takes a while.
        let (hold, knock) = (witness.path("hold"), witness.path("knock"));
        let launch = with_sibling(&format!(
            "open(my $held, '>', '{hold}'); my $memory = 'x' x 200_000_000;\n\
             open(my $knock, '>', '{knock}'); print $knock 'x'; close $knock; sleep 1000;"
        ));
        let mut family = guardian.launch(launch).await.expect("a family");
        witness.knocked(1).await;
        close_input(&mut family);
        assert_eq!(end(&mut family).await.code, Some(0), "{mode}");
        assert!(!witness.is_held(), "{mode}");
    }
}

/// Its leader waits for the end of its input, and ends.
fn close_input(family: &mut Family) {
    drop(family.stdin.take());
}

#[tokio::test]
async fn processes_that_detach_again_and_again_are_found() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        let mut witness = Witness::new();
        let directory = tempfile::tempdir().expect("a directory");
        let script = directory.path().join("again");
        let text = format!("{} sleep 0.01; setsid sh {} & exit", witness.hold(), script.display());
        std::fs::write(&script, text).expect("a script");
        let command = format!("setsid env -i PATH=$PATH sh {} & sleep 1000", script.display());
        let mut family = guardian.launch(exclusive(shell("again", &command))).await.expect("a family");
        witness.knocked(5).await;
        family.kill();
        end(&mut family).await;
        assert!(!witness.is_held(), "{mode}");
    }
}
