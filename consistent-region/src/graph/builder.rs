//! The typed way to describe a region.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::operator::{
    AutonomousPort, ControlPort, InstanceContext, OpenSide, Operator, Producer, StartOperator,
    Tuple, open_autonomous, open_control,
};
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
    operators: Vec<Box<dyn OperatorSpec>>,
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
            mistake: None,
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
    mistake: Option<TopologyError>,
    operators: Vec<Box<dyn OperatorSpec>>,
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
        self.parallel_start(name, 1, factory)
    }

    /// Adds a start operator of `width` instances, each of which reads its own share:
    /// [`InstanceContext`] tells which one it is.
    pub fn parallel_start<A: StartOperator>(
        &mut self,
        name: impl Into<String>,
        width: u16,
        factory: impl Fn(InstanceContext) -> A + Send + Sync + 'static,
    ) -> Stream<A::Output> {
        let producer = Some(A::poll_produce as Producer<A>);
        let stream = self.add(name.into(), Role::Start, width, producer, factory);
        if let Some(operator) = self.operators.last_mut() {
            operator.set_acknowledges(A::ACKNOWLEDGES);
        }
        stream
    }

    /// Adds an operator of `width` instances that share out the batches in turn.
    pub fn operator<A: Operator>(
        &mut self,
        name: impl Into<String>,
        inputs: impl Into<Inputs<A::Input>>,
        width: u16,
        factory: impl Fn(InstanceContext) -> A + Send + Sync + 'static,
    ) -> Stream<A::Output> {
        let stream = self.add(name.into(), Role::Inner, width, None, factory);
        self.connect(inputs.into(), stream.from, 0, &Partitioner::RoundRobin);
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
        let stream = self.add(name.into(), Role::Inner, width, None, factory);
        let hash = move |tuple: &A::Input| stable_hash(&key(tuple));
        let keyed = Partitioner::Keyed(Arc::new(hash));
        self.connect(inputs.into(), stream.from, 0, &keyed);
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

    /// Adds an end operator of `width` instances that share out the batches in turn.
    pub fn parallel_end<A: Operator<Output = ()>>(
        &mut self,
        name: impl Into<String>,
        inputs: impl Into<Inputs<A::Input>>,
        width: u16,
        factory: impl Fn(InstanceContext) -> A + Send + Sync + 'static,
    ) {
        let _nothing = self.operator(name, inputs, width, factory);
    }

    /// Adds an end operator of `width` instances, each of which owns a part of the keys: see
    /// [`keyed`](Self::keyed).
    pub fn keyed_end<A, K>(
        &mut self,
        name: impl Into<String>,
        inputs: impl Into<Inputs<A::Input>>,
        width: u16,
        key: impl Fn(&A::Input) -> K + Send + Sync + 'static,
        factory: impl Fn(InstanceContext) -> A + Send + Sync + 'static,
    ) where
        A: Operator<Output = ()>,
        K: Hash,
    {
        let _nothing = self.keyed(name, inputs, width, key, factory);
    }

    /// Adds an operator that is not part of the region: it takes the tuples as they come, and is
    /// neither drained nor checkpointed nor set back. After a reset it sees tuples again. A display
    /// or an alarm, not a count. It slows the region when it is slow, and its failure resets the
    /// region as any other does; then it is made anew, without its state.
    pub fn autonomous<A: Operator>(
        &mut self,
        name: impl Into<String>,
        inputs: impl Into<Inputs<A::Input>>,
        width: u16,
        factory: impl Fn(InstanceContext) -> A + Send + Sync + 'static,
    ) -> Stream<A::Output> {
        let stream = self.add(name.into(), Role::Autonomous, width, None, factory);
        self.connect(inputs.into(), stream.from, 0, &Partitioner::RoundRobin);
        stream
    }

    /// Adds a source that is not part of the region, for an
    /// [autonomous port](Self::autonomous_port): it is never paused, and what it gave is not read
    /// again.
    pub fn autonomous_start<A: StartOperator>(
        &mut self,
        name: impl Into<String>,
        factory: impl Fn(InstanceContext) -> A + Send + Sync + 'static,
    ) -> Stream<A::Output> {
        let producer = Some(A::poll_produce as Producer<A>);
        self.add(name.into(), Role::Autonomous, 1, producer, factory)
    }

    /// Gives `operator`, which was added before as one of type `A`, a control port that takes
    /// `inputs`: every instance gets every tuple. `inputs` may come from operators after it: a loop
    /// may be closed like that, and in no other way.
    pub fn control<A: ControlPort>(
        &mut self,
        operator: &str,
        inputs: impl Into<Inputs<A::Control>>,
    ) {
        let port = InputPort {
            control: true,
            ..InputPort::default()
        };
        let open = open_control::<A> as OpenSide<A>;
        let broadcast = Partitioner::Broadcast(A::Control::clone);
        self.add_side::<A, _>(operator, port, open, inputs.into(), &broadcast);
    }

    /// Gives `operator`, which was added before as one of type `A`, a port for streams from outside
    /// the region; its instances share out the batches in turn.
    pub fn autonomous_port<A: AutonomousPort>(
        &mut self,
        operator: &str,
        inputs: impl Into<Inputs<A::Outside>>,
    ) {
        let port = InputPort {
            autonomous: true,
            ..InputPort::default()
        };
        let open = open_autonomous::<A> as OpenSide<A>;
        let in_turn = Partitioner::RoundRobin;
        self.add_side::<A, _>(operator, port, open, inputs.into(), &in_turn);
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
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
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
        producer: Option<Producer<A>>,
        factory: impl Fn(InstanceContext) -> A + Send + Sync + 'static,
    ) -> Stream<A::Output> {
        let from = self.operators.len();
        let inputs = match producer {
            Some(_) => Vec::new(),
            None => vec![InputPort::default()],
        };
        self.topology.operators.push(OperatorNode {
            name,
            role,
            width,
            inputs,
            outputs: 1,
            labels: Vec::new(),
        });
        self.operators.push(Box::new(TypedOperator {
            factory: Arc::new(factory),
            producer,
            acknowledges: false,
            sides: Vec::new(),
        }));
        Stream {
            from,
            duplicate: None,
            tuples: PhantomData,
        }
    }

    /// The first mistake is told by [`build`](Self::build).
    fn add_side<A: Operator, T: Tuple>(
        &mut self,
        operator: &str,
        port: InputPort,
        open: OpenSide<A>,
        inputs: Inputs<T>,
        partitioner: &Partitioner<T>,
    ) {
        let nodes = &mut self.topology.operators;
        let Some(to) = nodes.iter().position(|node| node.name == operator) else {
            let operator = operator.to_owned();
            self.mistake
                .get_or_insert(TopologyError::UnknownOperator { operator });
            return;
        };
        if !self.operators[to].add_side(Box::new(open)) {
            self.mistake.get_or_insert(TopologyError::WrongOperator {
                operator: operator.to_owned(),
                expected: std::any::type_name::<A>(),
            });
            return;
        }
        let ports = &mut nodes[to].inputs;
        let input = u16::try_from(ports.len()).unwrap_or(u16::MAX);
        ports.push(port);
        self.connect(inputs, to, input, partitioner);
    }

    fn connect<T: Tuple>(
        &mut self,
        inputs: Inputs<T>,
        to: usize,
        input: u16,
        partitioner: &Partitioner<T>,
    ) {
        let partition = match partitioner {
            Partitioner::RoundRobin => Partition::RoundRobin,
            Partitioner::Keyed(_) => Partition::Keyed,
            Partitioner::Broadcast(_) => Partition::Broadcast,
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
                input,
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
