//! The nodes under the root.

use crate::election::{ComponentId, ElectionError};

const CANDIDATE: &str = "candidate-";

#[derive(Clone, Debug)]
pub(super) struct Paths {
    root: String,
}

impl Paths {
    pub(super) fn new(root: String) -> Result<Self, ElectionError> {
        let parts: Vec<&str> = root.split('/').skip(1).collect();
        let sound = |part: &&str| !part.is_empty() && *part != "." && *part != "..";
        if root.starts_with('/') && parts.iter().all(sound) && !root.contains('\0') {
            return Ok(Paths { root });
        }
        let problem = format!("is {root:?}, an absolute path such as /lockkeeper/orders is needed");
        Err(ElectionError::InvalidOption {
            option: "root",
            problem,
        })
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    pub(super) fn election(&self) -> String {
        format!("{}/election", self.root)
    }

    /// What sequential candidates' paths begin with.
    pub(super) fn candidate_prefix(&self) -> String {
        format!("{}/{CANDIDATE}", self.election())
    }

    pub(super) fn candidate(&self, sequence: i64) -> String {
        format!("{}{sequence:010}", self.candidate_prefix())
    }

    pub(super) fn information(&self) -> String {
        format!("{}/information", self.root)
    }

    pub(super) fn information_of(&self, component: &ComponentId) -> String {
        format!("{}/{component}", self.information())
    }
}

/// The sequence of a candidate's node, from its name.
pub(super) fn sequence(name: &str) -> Option<i64> {
    name.strip_prefix(CANDIDATE)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_an_absolute_path_below_the_top() {
        for root in ["", "/", "a/b", "/a/", "/a//b", "/a/../b"] {
            assert!(Paths::new(root.to_owned()).is_err(), "{root}");
        }
        let paths = Paths::new("/a/b".to_owned()).unwrap();
        assert_eq!(paths.candidate(7), "/a/b/election/candidate-0000000007");
        assert_eq!(sequence("candidate-0000000007"), Some(7));
        assert_eq!(sequence("other-0000000007"), None);
    }
}
