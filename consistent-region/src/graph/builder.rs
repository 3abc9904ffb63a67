//! The typed way to describe a region.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::operator::{InstanceContext, Operator, StartOperator, Tuple};
use crate::stream::Partitioner;

use super::error::TopologyError;
use super::key::stable_hash;
use super::plan::{Plan, fingerprint, structure};
use super::spec::{ConnectionSpec, OperatorSpec, TypedConnection, TypedOperator};
use super::topology::{
    Connection, InputPort, Members, OperatorNode, Partition, Role, Topology, TriggerKind, check,
    check_name,
};

/// Makes one instance of an operator, on the thread that it will live on.
pub(crate) type Factory<A> = Arc<dyn Fn(InstanceContext) -> A + Send + Sync>;

/// A region's graph with the program for each operator. Cheap to clone.
///
/// Every worker process of a region builds the same one: any of them can then run any instance.
///
/// ```
/// # use actix::{Actor, Context};
/// # use lockkeeper_consistent_region::graph::Region;
/// # use lockkeeper_consistent_region::operator::*;
/// # struct Numbers(u64);
/// # impl Actor for Numbers { type Context = Context<Self>; }
/// # impl Operator for Numbers {
/// #     type Input = (); type Output = u64;
/// #     fn process(&mut self, _: Vec<()>, _: &mut Output<u64>) -> Result<(), OperatorError> { Ok(()) }
/// # }
/// # impl StartOperator for Numbers {
/// #     fn poll_produce(&mut self, _: &mut std::task::Context<'_>, _: &mut Output<u64>, _: &RegionHandle)
/// #         -> std::task::Poll<Result<Produced, OperatorError>> { std::task::Poll::Ready(Ok(Produced::End)) }
/// # }
/// # struct Count(u64);
/// # impl Actor for Count { type Context = Context<Self>; }
/// # impl Operator for Count {
/// #     type Input = u64; type Output = ();
/// #     fn process(&mut self, batch: Vec<u64>, _: &mut Output<()>) -> Result<(), OperatorError> {
/// #         self.0 += batch.len() as u64; Ok(())
/// #     }
/// # }
/// let mut graph = Region::builder("orders");
/// let numbers = graph.start("numbers", |_context| Numbers(0));
/// graph.keyed("counts", numbers, 2, |number: &u64| *number, |_context| Count(0));
/// let region = graph.build()?;
/// assert_eq!(region.plan().instances.len(), 3);
/// # Ok::<(), lockkeeper_consistent_region::graph::TopologyError>(())
/// ```
#[derive(Clone)]
pub struct Region(Arc<Inner>);

struct Inner {
    name: String,
    trigger: TriggerKind,
    topology: Topology,
    members: Members,
    plan: Plan,
    fingerprint: u64,
    structure: u64,
    operators: Vec<Arc<dyn OperatorSpec>>,
    connections: Vec<Arc<dyn ConnectionSpec>>,
}

impl Region {
    /// Begins the description of the region `name`: 1 to 64 letters, digits, `_` and `-`.
    #[must_use]
    pub fn builder(name: impl Into<String>) -> RegionBuilder {
        RegionBuilder {
            name: name.into(),
            trigger: TriggerKind::Periodic,
            topology: Topology::default(),
            needs: Vec::new(),
            operators: Vec::new(),
            connections: Vec::new(),
        }
    }

    /// The region's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Who decides when a cut is taken.
    #[must_use]
    pub fn trigger(&self) -> TriggerKind {
        self.0.trigger
    }

    /// The graph as plain data.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.0.topology
    }

    /// Who is part of the region.
    #[must_use]
    pub fn members(&self) -> &Members {
        &self.0.members
    }

    /// Its instances and channels.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.0.plan
    }

    /// What a worker and a coordinator must agree on: see [`fingerprint`].
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.0.fingerprint
    }

    /// The same for graphs that differ in widths only: see [`structure`].
    #[must_use]
    pub fn structure(&self) -> u64 {
        self.0.structure
    }

    pub(crate) fn operator(&self, index: usize) -> &dyn OperatorSpec {
        &*self.0.operators[index]
    }

    pub(crate) fn connection(&self, index: usize) -> &Arc<dyn ConnectionSpec> {
        &self.0.connections[index]
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("name", &self.0.name)
            .field("topology", &self.0.topology)
            .field("fingerprint", &self.0.fingerprint)
            .finish_non_exhaustive()
    }
}

/// What an operator gives, to be used as another's input. Belongs to the builder that made it.
///
/// Cloning it lets another operator take the same tuples; that needs tuples that can be cloned.
#[derive(Debug)]
#[must_use = "a stream that no operator takes throws its tuples away"]
pub struct Stream<T> {
    from: usize,
    duplicate: Option<fn(&T) -> T>,
    tuples: PhantomData<fn() -> T>,
}

impl<T: Clone> Clone for Stream<T> {
    fn clone(&self) -> Self {
        Self {
            from: self.from,
            duplicate: Some(T::clone),
            tuples: PhantomData,
        }
    }
}

/// The streams that one input port takes: one [`Stream`], or an array or vector of them (fan-in).
#[derive(Debug)]
pub struct Inputs<T>(Vec<Stream<T>>);

impl<T> From<Stream<T>> for Inputs<T> {
    fn from(stream: Stream<T>) -> Self {
        Self(vec![stream])
    }
}

impl<T, const N: usize> From<[Stream<T>; N]> for Inputs<T> {
    fn from(streams: [Stream<T>; N]) -> Self {
        Self(streams.into())
    }
}

impl<T> From<Vec<Stream<T>>> for Inputs<T> {
    fn from(streams: Vec<Stream<T>>) -> Self {
        Self(streams)
    }
}

/// Describes a region; see [`Region`].
pub struct RegionBuilder {
    name: String,
    trigger: TriggerKind,
    topology: Topology,
    /// Operators' names, and labels that they need.
    needs: Vec<(String, String)>,
    operators: Vec<Arc<dyn OperatorSpec>>,
    connections: Vec<Arc<dyn ConnectionSpec>>,
}

impl RegionBuilder {
    /// Says who decides when a cut is taken; periodic unless told otherwise.
    #[must_use]
    pub fn trigger(mut self, trigger: TriggerKind) -> Self {
        self.trigger = trigger;
        self
    }

    /// Adds an operator that tuples enter the region by, with one instance.
    ///
    /// `factory` makes the operator, whenever an instance is started or has to be replaced.
    pub fn start<A: StartOperator>(
        &mut self,
        name: impl Into<String>,
        factory: impl Fn(InstanceContext) -> A + Send + Sync + 'static,
    ) -> Stream<A::Output> {
        let factory: Factory<A> = Arc::new(factory);
        let spec = TypedOperator {
            factory,
            producer: Some(A::poll_produce),
        };
        self.add(name.into(), Role::Start, 1, spec)
    }

    /// Adds an operator of `width` instances that share out the batches in turn.
    pub fn operator<A: Operator>(
        &mut self,
        name: impl Into<String>,
        inputs: impl Into<Inputs<A::Input>>,
        width: u16,
        factory: impl Fn(InstanceContext) -> A + Send + Sync + 'static,
    ) -> Stream<A::Output> {
        let factory: Factory<A> = Arc::new(factory);
        let stream = self.add(
            name.into(),
            Role::Inner,
            width,
            TypedOperator {
                factory,
                producer: None,
            },
        );
        self.connect(inputs.into(), stream.from, &Partitioner::RoundRobin);
        stream
    }

    /// Adds an operator of `width` instances, each of which owns a part of the keys: tuples with
    /// equal keys go to one instance, in the order of their stream.
    ///
    /// `key` must give the same key for the same tuple in every process.
    pub fn keyed<A, K>(
        &mut self,
        name: impl Into<String>,
        inputs: impl Into<Inputs<A::Input>>,
        width: u16,
        key: impl Fn(&A::Input) -> K + Send + Sync + 'static,
        factory: impl Fn(InstanceContext) -> A + Send + Sync + 'static,
    ) -> Stream<A::Output>
    where
        A: Operator,
        K: Hash,
    {
        let factory: Factory<A> = Arc::new(factory);
        let stream = self.add(
            name.into(),
            Role::Inner,
            width,
            TypedOperator {
                factory,
                producer: None,
            },
        );
        let hash = move |tuple: &A::Input| stable_hash(&key(tuple));
        self.connect(
            inputs.into(),
            stream.from,
            &Partitioner::Keyed(Arc::new(hash)),
        );
        stream
    }

    /// Adds an end operator, a sink for instance, with one instance.
    pub fn end<A: Operator<Output = ()>>(
        &mut self,
        name: impl Into<String>,
        inputs: impl Into<Inputs<A::Input>>,
        factory: impl Fn(InstanceContext) -> A + Send + Sync + 'static,
    ) {
        let _nothing = self.operator(name, inputs, 1, factory);
    }

    /// Runs `operator` only on workers that have `label`
    /// ([`WorkerConfig::labels`](crate::worker::WorkerConfig::labels)); with several, on those that
    /// have all of them.
    pub fn needs(&mut self, operator: impl Into<String>, label: impl Into<String>) {
        self.needs.push((operator.into(), label.into()));
    }

    /// Checks the rules of a consistent region and makes it.
    pub fn build(mut self) -> Result<Region, TopologyError> {
        check_name(&self.name)?;
        for (name, label) in self.needs {
            let operators = &mut self.topology.operators;
            match operators.iter_mut().find(|operator| operator.name == name) {
                Some(operator) => operator.labels.push(label),
                None => return Err(TopologyError::UnknownOperator { operator: name }),
            }
        }
        let members = check(&self.topology, self.trigger)?;
        let state_types: Vec<&str> = self.operators.iter().map(|o| o.state_type()).collect();
        Ok(Region(Arc::new(Inner {
            fingerprint: fingerprint(&self.name, &self.topology, &state_types),
            structure: structure(&self.name, &self.topology, &state_types),
            plan: Plan::new(&self.topology),
            name: self.name,
            trigger: self.trigger,
            topology: self.topology,
            members,
            operators: self.operators,
            connections: self.connections,
        })))
    }

    fn add<A: Operator>(
        &mut self,
        name: String,
        role: Role,
        width: u16,
        spec: TypedOperator<A>,
    ) -> Stream<A::Output> {
        let from = self.operators.len();
        let inputs = match role {
            Role::Start => Vec::new(),
            _ => vec![InputPort::default()],
        };
        self.topology.operators.push(OperatorNode {
            name,
            role,
            width,
            inputs,
            outputs: 1,
            labels: Vec::new(),
        });
        self.operators.push(Arc::new(spec));
        Stream {
            from,
            duplicate: None,
            tuples: PhantomData,
        }
    }

    fn connect<T: Tuple>(&mut self, inputs: Inputs<T>, to: usize, partitioner: &Partitioner<T>) {
        let partition = match partitioner {
            Partitioner::RoundRobin => Partition::RoundRobin,
            Partitioner::Keyed(_) => Partition::Keyed,
        };
        for Stream {
            from, duplicate, ..
        } in inputs.0
        {
            let partitioner = partitioner.clone();
            self.topology.connections.push(Connection {
                from,
                output: 0,
                to,
                input: 0,
                partition,
            });
            self.connections.push(Arc::new(TypedConnection {
                partitioner,
                duplicate,
            }));
        }
    }
}

impl fmt::Debug for RegionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionBuilder")
            .field("name", &self.name)
            .field("topology", &self.topology)
            .finish_non_exhaustive()
    }
}
