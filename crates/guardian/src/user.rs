//! The user that job processes run as, found in `/etc/passwd` and `/etc/group` or given by numbers.
//!
//! Only these two files are read: asking the C library would load whatever the machine has for its directory service into the
//! worker. Users of a directory are given by their numbers.

use std::fs;

use model::Invalid;

/// A user for job processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub(crate) credentials: Credentials,
    /// If it is in `/etc/passwd`.
    account: Option<Account>,
}

/// What the kernel knows of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Supplementary ones.
    pub(crate) groups: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Account {
    name: String,
    home: String,
}

impl User {
    /// Reads `USER` or `USER:GROUP`, each a name or a number. Without a group it is the user's own. The supplementary groups
    /// are those that list the user; a user that is not in `/etc/passwd` has none, and needs a group.
    pub fn find(text: &str) -> Result<User, Invalid> {
        let read = |path| {
            fs::read_to_string(path).map_err(|error| Invalid::new(format!("cannot read {path}: {error}")))
        };
        Self::find_in(text, &read("/etc/passwd")?, &read("/etc/group")?)
    }

    pub(crate) fn find_in(text: &str, passwd: &str, group: &str) -> Result<User, Invalid> {
        let (user, wanted) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
        let groups: Vec<Group<'_>> = group.lines().filter_map(Group::read).collect();
        let wanted = wanted.map(|wanted| group_number(wanted, &groups)).transpose()?;
        let Some(entry) = passwd.lines().filter_map(Entry::read).find(|entry| entry.is(user)) else {
            let uid = number(user).ok_or_else(|| {
                Invalid::new(format!(
                    "there is no user {user:?} in /etc/passwd; check the name, or give a number"
                ))
            })?;
            let gid = wanted.ok_or_else(|| {
                Invalid::new(format!("user {uid} is not in /etc/passwd; give a group, too: {uid}:GROUP"))
            })?;
            return Ok(User { credentials: Credentials { uid, gid, groups: Vec::new() }, account: None });
        };
        let listed = groups.iter().filter(|group| group.has(entry.name)).map(|group| group.gid);
        let credentials =
            Credentials { uid: entry.uid, gid: wanted.unwrap_or(entry.gid), groups: listed.collect() };
        let account = Account { name: entry.name.to_owned(), home: entry.home.to_owned() };
        Ok(User { credentials, account: Some(account) })
    }

    /// What its environment says of it.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let Some(Account { name, home }) = &self.account else { return Vec::new() };
        vec![("HOME", home.clone()), ("USER", name.clone()), ("LOGNAME", name.clone())]
    }
}

/// A line of `/etc/passwd`.
struct Entry<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

impl<'a> Entry<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, ..] = fields[..] else { return None };
        Some(Entry { name, uid: number(uid)?, gid: number(gid)?, home })
    }

    fn is(&self, wanted: &str) -> bool {
        self.name == wanted || number(wanted) == Some(self.uid)
    }
}

/// A line of `/etc/group`.
struct Group<'a> {
    name: &'a str,
    gid: u32,
    members: &'a str,
}

impl<'a> Group<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, gid, members] = fields[..] else { return None };
        Some(Group { name, gid: number(gid)?, members })
    }

    fn has(&self, user: &str) -> bool {
        self.members.split(',').any(|member| member == user)
    }
}

fn group_number(wanted: &str, groups: &[Group<'_>]) -> Result<u32, Invalid> {
    let named = groups.iter().find(|group| group.name == wanted).map(|group| group.gid);
    named.or_else(|| number(wanted)).ok_or_else(|| {
        Invalid::new(format!("there is no group {wanted:?} in /etc/group; check the name, or give a number"))
    })
}

/// A number of a user or group. The largest one means "no change" to the kernel.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/bash\nbroken line\nann:x:1000:1001:Ann,,,:/home/ann:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nann:x:1001:\naudio:x:29:bob,ann\nbackup:x:34:joann\nvideo:x:44:ann\n";

    #[test]
    fn a_user_is_a_name_or_a_number_with_its_own_groups_or_another() {
        for (text, uid, gid, groups) in [
            ("ann", 1000, 1001, &[29, 44][..]),
            ("1000", 1000, 1001, &[29, 44]),
            ("ann:backup", 1000, 34, &[29, 44]),
            ("ann:7", 1000, 7, &[29, 44]),
            ("root", 0, 0, &[]),
            ("12:audio", 12, 29, &[]),
        ] {
            let user = User::find_in(text, PASSWD, GROUP).unwrap();
            assert_eq!(user.credentials, Credentials { uid, gid, groups: groups.to_vec() }, "{text}");
        }
    }

    #[test]
    fn what_is_no_user_is_refused_with_words() {
        for (text, complaint) in [
            ("bob", "there is no user \"bob\" in /etc/passwd"),
            ("", "there is no user \"\""),
            ("ann:staff", "there is no group \"staff\" in /etc/group"),
            ("ann:", "there is no group \"\""),
            ("12", "user 12 is not in /etc/passwd; give a group, too: 12:GROUP"),
            ("4294967295:0", "there is no user \"4294967295\""),
            ("-1", "there is no user \"-1\""),
        ] {
            let error = User::find_in(text, PASSWD, GROUP).unwrap_err().0;
            assert!(error.contains(complaint), "{text:?}: {error}");
        }
    }
}
