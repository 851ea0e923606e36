//! Drives other job queues as `tenure bench` drives Tenure; `./run` and `./postgres` call it. Prints one JSON object.
//!
//!   peers beanstalkd ADDRESS JOBS PAYLOAD
//!   peers measure URL JOBS PAYLOAD DRIVER…                a PostgreSQL queue: throughput and latency
//!   peers recover URL default|fast kill|stop DRIVER…      the same: seconds until a lost worker's job starts again

mod beanstalkd;
mod figures;
mod postgres;
mod process;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["beanstalkd", address, jobs, payload] => beanstalkd::bench(address, jobs.parse()?, payload.parse()?),
        ["worker", address, jobs] => beanstalkd::drain(address, jobs.parse()?),
        ["latency-worker", address, jobs] => beanstalkd::drain_stamped(address, jobs.parse()?),
        ["measure", url, jobs, payload, ref driver @ ..] if !driver.is_empty() => {
            postgres::measure(driver, url, jobs.parse()?, payload.parse()?)
        }
        ["recover", url, settings, signal, ref driver @ ..] if !driver.is_empty() => {
            postgres::recover(driver, url, settings, signal)
        }
        _ => Err("usage: peers beanstalkd | measure | recover …, see the head of src/main.rs".into()),
    }
}
