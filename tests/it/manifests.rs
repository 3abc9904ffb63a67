//! The manifests of the guide, which no cluster of ours has run: Kubernetes knows every field, what one
//! object names is in another, and the guide's program finds what it asks for.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::guides::read;

const MANIFESTS: &str = "docs/deploy/kubernetes.yaml";
const GUIDE: &str = "docs/tasks/kubernetes.md";

fn documents() -> Vec<Value> {
    let documents = serde_saphyr::from_multiple(&read(MANIFESTS));
    documents.unwrap_or_else(|error| panic!("{MANIFESTS}: {error}"))
}

/// What Kubernetes would leave out of a document, or refuse it for.
fn not_of_the_api(document: &Value) -> Vec<String> {
    let text = |key: &str| document[key].as_str().unwrap_or_default();
    let kept = match (text("apiVersion"), text("kind")) {
        ("v1", "ServiceAccount") => kept::<ServiceAccount>(document),
        ("rbac.authorization.k8s.io/v1", "Role") => kept::<Role>(document),
        ("rbac.authorization.k8s.io/v1", "RoleBinding") => kept::<RoleBinding>(document),
        ("apps/v1", "Deployment") => kept::<Deployment>(document),
        ("policy/v1", "PodDisruptionBudget") => kept::<PodDisruptionBudget>(document),
        ("networking.k8s.io/v1", "NetworkPolicy") => kept::<NetworkPolicy>(document),
        (version, kind) => Err(format!("{version} {kind} is not known to this test")),
    };
    match kept {
        Ok(kept) => {
            let mut lost = Vec::new();
            compare("", document, &kept, &mut lost);
            lost
        }
        Err(error) => vec![error],
    }
}

/// What is left of a document after it was an object of the API.
fn kept<T: DeserializeOwned + Serialize>(document: &Value) -> Result<Value, String> {
    let object: T = serde_json::from_value(document.clone()).map_err(|error| error.to_string())?;
    serde_json::to_value(object).map_err(|error| error.to_string())
}

/// The places where what was given is missing or another one.
fn compare(place: &str, given: &Value, kept: &Value, lost: &mut Vec<String>) {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => {
            for (key, value) in given {
                let place = format!("{place}.{key}");
                match kept.get(key) {
                    Some(kept) => compare(&place, value, kept, lost),
                    None => lost.push(format!("{place} is no field")),
                }
            }
        }
        (Value::Array(given), Value::Array(kept)) if given.len() == kept.len() => {
            for (index, (given, kept)) in given.iter().zip(kept).enumerate() {
                compare(&format!("{place}[{index}]"), given, kept, lost);
            }
        }
        _ if given == kept => {}
        _ => lost.push(format!("{place} is {given}, and becomes {kept}")),
    }
}

#[test]
fn kubernetes_knows_every_field_of_the_manifests() {
    let documents = documents();
    assert!(documents.len() >= 7, "{} documents", documents.len());
    for document in documents {
        let name = format!("{} {}", document["kind"], document["metadata"]["name"]);
        let lost = not_of_the_api(&document);
        assert!(lost.is_empty(), "{MANIFESTS}: {name}: {lost:#?}");
    }
}

#[test]
fn a_field_that_kubernetes_does_not_know_is_named() {
    let documents = documents();
    let deployment = documents.iter().find(|one| one["kind"] == "Deployment");
    let deployment = deployment.unwrap();
    let with = |change: fn(&mut Value)| {
        let mut changed = deployment.clone();
        change(&mut changed["spec"]["template"]["spec"]);
        not_of_the_api(&changed)
    };
    let lost =
        with(|pod| pod["containers"][0]["redinessProbe"] = Value::Object(Default::default()));
    let place = ".spec.template.spec.containers[0].redinessProbe";
    assert_eq!(lost, [format!("{place} is no field")]);
    let lost = with(|pod| pod["terminationGracePeriodSeconds"] = "a minute".into());
    assert!(lost[0].contains("invalid type"), "{lost:?}");
    let mut unknown = deployment.clone();
    unknown["apiVersion"] = "apps/v2".into();
    assert!(not_of_the_api(&unknown)[0].contains("apps/v2"));
}

type Labels = BTreeMap<String, String>;

/// What the manifests hold, by kind.
struct Job {
    accounts: Vec<ServiceAccount>,
    roles: Vec<Role>,
    bindings: Vec<RoleBinding>,
    deployments: Vec<Deployment>,
    budgets: Vec<PodDisruptionBudget>,
    policies: Vec<NetworkPolicy>,
}

impl Job {
    fn read() -> Self {
        let documents = documents();
        Self {
            accounts: all(&documents, "ServiceAccount"),
            roles: all(&documents, "Role"),
            bindings: all(&documents, "RoleBinding"),
            deployments: all(&documents, "Deployment"),
            budgets: all(&documents, "PodDisruptionBudget"),
            policies: all(&documents, "NetworkPolicy"),
        }
    }

    fn templates(&self) -> impl Iterator<Item = &PodTemplateSpec> {
        self.deployments
            .iter()
            .map(|deployment| &deployment.spec.template)
    }

    fn pods(&self) -> impl Iterator<Item = &PodSpec> {
        self.templates()
            .map(|template| template.spec.as_ref().unwrap())
    }

    /// The port on which each container listens.
    fn ports(&self) -> BTreeSet<i32> {
        let containers = self.pods().flat_map(|pod| &pod.containers);
        let ports = containers.flat_map(|container| container.ports.iter().flatten());
        ports.map(|port| port.container_port).collect()
    }

    fn account(&self, name: Option<&str>) -> bool {
        let mut names = self.accounts.iter().map(|account| &account.metadata.name);
        names.any(|account| account.as_deref() == name)
    }

    /// Whether some pod has all labels that are asked for; an empty selector would mean every pod of
    /// the namespace.
    fn selects(&self, selector: Option<&LabelSelector>) -> bool {
        let wanted = selector.and_then(|selector| selector.match_labels.as_ref());
        wanted.is_some_and(|wanted| self.templates().any(|template| has(template, wanted)))
    }
}

fn all<T: DeserializeOwned>(documents: &[Value], kind: &str) -> Vec<T> {
    let of_kind = documents.iter().filter(|document| document["kind"] == kind);
    let all: Vec<T> = of_kind
        .map(|document| serde_json::from_value(document.clone()).unwrap())
        .collect();
    assert!(!all.is_empty(), "{MANIFESTS} has no {kind}");
    all
}

fn has(template: &PodTemplateSpec, wanted: &Labels) -> bool {
    let labels = template
        .metadata
        .as_ref()
        .and_then(|meta| meta.labels.as_ref());
    labels.is_some_and(|labels| {
        wanted
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    })
}

#[test]
fn what_a_manifest_names_is_in_another_one() {
    let job = Job::read();
    for deployment in &job.deployments {
        let spec = &deployment.spec;
        let wanted = spec.selector.match_labels.as_ref().unwrap();
        assert!(has(&spec.template, wanted), "not its own pods: {wanted:?}");
    }
    for pod in job.pods() {
        let account = pod.service_account_name.as_deref();
        assert!(job.account(account), "no ServiceAccount {account:?}");
        let volumes: BTreeSet<_> = pod.volumes.iter().flatten().map(|one| &one.name).collect();
        let mounts = pod
            .containers
            .iter()
            .flat_map(|one| one.volume_mounts.iter().flatten());
        let mounts: BTreeSet<_> = mounts.map(|mount| &mount.name).collect();
        assert_eq!(volumes, mounts, "volumes, and what is mounted");
    }
    for binding in &job.bindings {
        for subject in binding.subjects.iter().flatten() {
            assert_eq!(subject.kind, "ServiceAccount");
            assert!(job.account(Some(&subject.name)), "{subject:?}");
        }
        let (kind, role) = (&binding.role_ref.kind, Some(&binding.role_ref.name));
        let mut roles = job.roles.iter().map(|role| role.metadata.name.as_ref());
        assert!(kind == "Role" && roles.any(|name| name == role), "{role:?}");
    }
    for budget in &job.budgets {
        let selector = budget.spec.as_ref().unwrap().selector.as_ref();
        assert!(job.selects(selector), "{selector:?}");
    }
    let listening = job.ports();
    for policy in &job.policies {
        let spec = policy.spec.as_ref().unwrap();
        assert!(job.selects(spec.pod_selector.as_ref()), "{spec:?}");
        for rule in spec.ingress.iter().flatten() {
            for peer in rule.from.iter().flatten() {
                assert!(job.selects(peer.pod_selector.as_ref()), "{peer:?}");
            }
            for port in rule.ports.iter().flatten() {
                let Some(IntOrString::Int(number)) = &port.port else {
                    panic!("a port without a number: {port:?}");
                };
                assert!(listening.contains(number), "nobody listens at {number}");
            }
        }
    }
}

/// What stands between quotes behind `call(`, each time.
fn arguments<'a>(code: &'a str, call: &str) -> BTreeSet<&'a str> {
    let behind = code.split(call).skip(1);
    let quoted = behind.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
    quoted.collect()
}

#[test]
fn the_guides_program_finds_what_it_asks_for() {
    let guide = read(GUIDE);
    let code = guide.split("```rust").nth(1).unwrap();
    let (code, text) = code.split_once("```").unwrap();
    let job = Job::read();

    let asked = arguments(code, "env::var(");
    assert!(asked.contains("POD_IP"), "{asked:?}");
    for pod in job.pods() {
        for container in &pod.containers {
            let variables = container.env.iter().flatten();
            let given: BTreeSet<_> = variables.map(|variable| variable.name.as_str()).collect();
            let missing: Vec<_> = asked.difference(&given).collect();
            assert!(missing.is_empty(), "no manifest sets {missing:?}");
            let unexplained: Vec<_> = given
                .difference(&asked)
                .filter(|name| !text.contains(&format!("`{name}`")))
                .collect();
            assert!(unexplained.is_empty(), "what for? {unexplained:?}");

            let files = arguments(code, "read_to_string(");
            assert!(!files.is_empty());
            for file in files {
                let mut mounts = container.volume_mounts.iter().flatten();
                let within = |folder: &str| file.starts_with(&format!("{folder}/"));
                assert!(mounts.any(|mount| within(&mount.mount_path)), "{file}");
            }
        }
        for volume in pod.volumes.iter().flatten() {
            let secret = volume.secret.as_ref().unwrap();
            let row = format!(
                "| Secret `{}` (yours) |",
                secret.secret_name.as_ref().unwrap()
            );
            assert!(guide.contains(&row), "the guide has no {row}");
        }
    }

    let bound = arguments(code, ".bind(");
    let ports: BTreeSet<_> = job
        .ports()
        .iter()
        .map(|port| format!("0.0.0.0:{port}"))
        .collect();
    assert_eq!(ports, bound.into_iter().map(str::to_owned).collect());

    // the driver reads, makes and replaces one Lease
    let (_, lease) = code.split_once("Kubernetes::new(").unwrap();
    let lease = arguments(lease.split(");").next().unwrap(), ", ");
    assert_eq!(lease.len(), 1, "{lease:?}");
    let mut allowed = BTreeSet::new();
    for rule in job
        .roles
        .iter()
        .flat_map(|role| role.rules.iter().flatten())
    {
        assert_eq!(rule.resources.as_deref(), Some(&["leases".to_owned()][..]));
        let named = rule.resource_names.iter().flatten().map(String::as_str);
        let named: BTreeSet<_> = named.collect();
        let creates = rule.verbs == ["create"];
        assert!(creates && named.is_empty() || named == lease, "{rule:?}");
        allowed.extend(rule.verbs.iter().map(String::as_str));
    }
    assert_eq!(allowed, BTreeSet::from(["create", "get", "update"]));
}
