//! A program that is nothing but a guardian, and, for tests that need one to kill, a worker that does nothing but have
//! one.

use std::time::Duration;

use clock::SystemClock;
use guardian::{Conditions, Guardian, Launch, User};
use lease::clock_rule::Stopping;
use lease::guardian::Order;
use model::{Clock, Nonce, WorkerKey};

const USAGE: &str = "this program is started by a worker to look after its job processes\n\
                     play-worker <isolation>[@<user>] <servers> <kill wait ms> <safety ms> <hold ms> <how> <shell command>\n\
                     how: exclusive, ordinary, inside (an exclusive job inside the worker), bye (end properly when the input \
                     does) or idle (the same, after the command has ended)";

fn main() {
    guardian::run_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["play-worker", isolation, servers, kill_wait, safety, hold, how, command] => {
            let millis = |text: &str| Duration::from_millis(text.parse().expect("a number of milliseconds"));
            let stopping = Stopping { kill_wait: millis(kill_wait), safety: millis(safety) };
            let (isolation, user) = isolation
                .split_once('@')
                .map_or((isolation, None), |(isolation, user)| (isolation, Some(user)));
            let user = user.map(|user| User::find(user).expect("a user"));
            let isolation = isolation.parse().expect("an isolation");
            let conditions = Conditions { user, ..Conditions::isolated(isolation) };
            let guardian = Guardian::start_under(&conditions).expect("a guardian");
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(play_worker(guardian, servers, stopping, millis(hold), how, command));
        }
        _ => {
            eprintln!("{USAGE}");
            std::process::exit(2);
        }
    }
}

/// Has one job under one lease that is never renewed, says so, and waits to be killed.
async fn play_worker(
    guardian: Guardian,
    servers: &str,
    stopping: Stopping,
    hold: Duration,
    how: &str,
    command: &str,
) {
    guardian.attach(servers, stopping);
    let until = SystemClock.monotonic() + hold;
    guardian.tell(Order::Key { key: WorkerKey::new("w-played").expect("a key"), nonce: Nonce::new(77) });
    guardian.tell(Order::Hold { until });
    let launch = Launch {
        program: "sh".into(),
        args: vec!["-c".into(), command.to_owned()],
        env: vec![("TENURE_JOB_ID".into(), "played".into()), ("TENURE_FENCE".into(), "1".into())],
        exclusive: how == "exclusive",
        no_input: false,
    };
    let mut family = guardian.launch(launch).await.expect("a family");
    if how == "idle" {
        family.ended().await.expect("an end");
    }
    guardian.tell(Order::Inside { exclusive: how == "inside" });
    println!("{} {}", guardian.pid(), until.as_nanos());
    if how == "bye" || how == "idle" {
        let _ = std::io::stdin().read_line(&mut String::new());
        return guardian.tell(Order::Bye);
    }
    std::future::pending::<()>().await;
}
