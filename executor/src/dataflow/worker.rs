//! The worker threads: each builds every job's dataflow from the same commands in the same order, and runs them.

use super::build::build;
use super::context::{JobLocal, WorkerContext};
use crate::error::OperatorError;
use crate::job::JobShared;
use crate::shared::Shared;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::Thread;
use std::time::Duration;
use thalweg_catalog::{CrashPoint, Epoch, ObjectId};
use thalweg_storage::worker_store::{WorkerStore, WorkerStoreOptions};
use thalweg_storage::{StorageError, StorageResult};
use timely::WorkerConfig;
use timely::communication::Config as Communication;
use timely::worker::Worker;
use tokio::sync::mpsc::UnboundedSender;

/// What a worker is told to do.
pub enum Command {
    /// Builds a job. With `restored` its state stands at a checkpoint; else whatever state has its id is dropped first.
    Build {
        /// The job.
        job: Arc<JobShared>,
        /// Whether it goes on from a checkpoint.
        restored: bool,
        /// Told when it is built.
        done: UnboundedSender<()>,
    },
    /// Forgets a job that has been cancelled, with all of its state.
    Drop {
        /// The job.
        id: ObjectId,
        /// Told when nothing is left of it.
        done: UnboundedSender<()>,
    },
    /// Deletes the state of all other jobs than these: they were dropped when nobody could clean up after them any more.
    Sweep {
        /// The jobs that there are.
        jobs: Arc<BTreeSet<ObjectId>>,
        /// Told when it is done.
        done: UnboundedSender<()>,
    },
    /// Ends the thread.
    Stop,
}

/// A worker's part of a checkpoint: its database's files are in the directory.
pub struct Flushed {
    /// Which worker.
    pub worker: usize,
    /// The checkpoint.
    pub epoch: Epoch,
    /// Where the files are, or why there are none.
    pub directory: StorageResult<PathBuf>,
}

/// All worker threads of a process.
pub struct Workers {
    commands: Vec<Sender<Command>>,
    threads: Vec<Thread>,
    guards: Option<timely::communication::WorkerGuards<()>>,
}

/// A worker's database and where it is.
#[derive(Clone, Debug)]
pub struct WorkerPlace {
    /// The database's directory.
    pub database: PathBuf,
    /// Where checkpoints are made: on the same file system.
    pub checkpoints: PathBuf,
    /// How it is opened.
    pub options: WorkerStoreOptions,
}

impl Workers {
    /// Starts a thread for each place. Returns once all have opened their databases.
    ///
    /// # Errors
    /// If threads can't be started, or a database can't be opened.
    pub fn start(shared: &Arc<Shared>, places: Vec<WorkerPlace>, flushed: UnboundedSender<Flushed>) -> Result<Workers, String> {
        let count = places.len();
        let (mut commands, mut inboxes) = (vec![], vec![]);
        for place in places {
            let (sender, receiver) = channel();
            commands.push(sender);
            inboxes.push(Some((place, receiver)));
        }
        let inboxes = parking_lot::Mutex::new(inboxes);
        let (ready, opened) = channel();
        let ready = parking_lot::Mutex::new(ready);
        let (builders, others) = Communication::Process(count).try_build()?;
        let shared = Arc::clone(shared);
        let run = move |worker: &mut Worker| {
            let index = worker.index();
            let Some((place, inbox)) = inboxes.lock()[index].take() else { return };
            let ready = ready.lock().clone();
            match WorkerStore::open(&place.database, place.options) {
                Ok(store) => {
                    shared.add_store(index, store.reader());
                    // The starter waits for every worker's word.
                    let _ = ready.send(Ok((index, std::thread::current())));
                    drop(ready);
                    let context = Rc::new(WorkerContext::new(index, count, Arc::clone(&shared), store));
                    Loop::new(context, place.checkpoints, inbox, flushed.clone()).run(worker);
                }
                Err(error) => {
                    let _ = ready.send(Err(super::adapter::chain(&error)));
                }
            }
        };
        let guards = timely::execute::execute_from(builders, others, WorkerConfig::default(), run)?;
        let mut threads: Vec<Option<Thread>> = vec![None; count];
        for _ in 0..count {
            let (index, thread) = opened.recv().map_err(|e| e.to_string())??;
            threads[index] = Some(thread);
        }
        Ok(Workers { commands, threads: threads.into_iter().flatten().collect(), guards: Some(guards) })
    }

    /// Tells every worker the same.
    pub fn tell(&self, mut make: impl FnMut() -> Command) {
        for commands in &self.commands {
            // A worker that is gone has panicked, which the process does not survive.
            let _ = commands.send(make());
        }
        self.wake();
    }

    /// Wakes every worker: the clock has ticked.
    pub fn wake(&self) {
        self.threads.iter().for_each(Thread::unpark);
    }

    /// Ends all threads and waits for them.
    pub fn stop(&mut self) {
        self.tell(|| Command::Stop);
        if let Some(guards) = self.guards.take() {
            for end in guards.join() {
                if let Err(panic) = end {
                    tracing::error!(panic, "a worker thread panicked");
                }
            }
        }
    }
}

struct Loop {
    context: Rc<WorkerContext>,
    checkpoints: PathBuf,
    inbox: Receiver<Command>,
    flushed: UnboundedSender<Flushed>,
    /// The copy of the database that is being made.
    copy: Option<Copy>,
    /// The open epoch when inputs were woken last.
    woken_at: Epoch,
    /// Jobs whose dataflow is here.
    alive: BTreeSet<ObjectId>,
    /// Jobs to be forgotten once their dataflow has gone.
    dropping: Vec<(ObjectId, UnboundedSender<()>)>,
}

/// A copy of the database in the making, on a thread of its own: the worker goes on, and writes nothing meanwhile.
struct Copy {
    epoch: Epoch,
    /// Comes when the copy is there. Nothing comes if the thread has panicked.
    made: Receiver<StorageResult<PathBuf>>,
}

impl Loop {
    fn new(
        context: Rc<WorkerContext>,
        checkpoints: PathBuf,
        inbox: Receiver<Command>,
        flushed: UnboundedSender<Flushed>,
    ) -> Loop {
        Loop { context, checkpoints, inbox, flushed, copy: None, woken_at: Epoch(0), alive: BTreeSet::new(), dropping: vec![] }
    }

    fn run(mut self, worker: &mut Worker) {
        loop {
            loop {
                match self.inbox.try_recv() {
                    Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                        for dataflow in worker.installed_dataflows() {
                            worker.drop_dataflow(dataflow);
                        }
                        if let Some(copy) = self.copy {
                            // It holds the database open.
                            let _ = copy.made.recv();
                        }
                        return;
                    }
                    Ok(command) => self.obey(command, worker),
                    Err(TryRecvError::Empty) => break,
                }
            }
            let open = self.context.shared.clock.open();
            if open > self.woken_at {
                self.woken_at = open;
                let inputs: Vec<_> = self.context.inputs.borrow().values().cloned().collect();
                inputs.iter().for_each(|wake| wake());
            }
            self.make_checkpoint();
            self.end_copy();
            // Every tick, command and row unparks the thread; the limit is only there to not depend on it.
            worker.step_or_park(Some(Duration::from_secs(1)));
            self.clean_up();
        }
    }

    fn obey(&mut self, command: Command, worker: &mut Worker) {
        match command {
            Command::Build { job, restored, done } => {
                let made_ready = if restored {
                    self.context.restore_errors(job.id)
                } else {
                    self.context.drop_job(job.id).map_err(OperatorError::from)
                };
                if let Err(error) = made_ready {
                    job.fail(super::adapter::chain(&error));
                }
                self.alive.insert(job.id);
                let local = Rc::new(JobLocal::new(Arc::clone(&job), Rc::clone(&self.context), restored));
                worker.dataflow_named(&format!("job {}", job.id), |scope| build(scope, &local));
                drop(local);
                let _ = done.send(());
            }
            Command::Drop { id, done } => {
                self.context.hubs.borrow_mut().remove(&id);
                self.dropping.push((id, done));
                // Operators see that the job is cancelled when they run next.
                let inputs: Vec<_> = self.context.inputs.borrow().values().cloned().collect();
                inputs.iter().for_each(|wake| wake());
            }
            Command::Sweep { jobs, done } => {
                let stored: BTreeSet<ObjectId> = self.context.store.tables().iter().map(|table| table.job).collect();
                for id in stored.difference(&jobs) {
                    drop_state(&self.context, *id);
                }
                let _ = done.send(());
            }
            Command::Stop => unreachable!("taken by the loop"),
        }
    }

    /// Begins the worker's part of an announced checkpoint, once all operators have flushed.
    fn make_checkpoint(&mut self) {
        let Some(epoch) = self.context.shared.clock.next_checkpoint(self.context.checkpoint.get()) else {
            if !self.context.shared.clock.checkpoint_running() {
                self.context.flush_waiting(None);
            }
            return;
        };
        if self.context.flushed_all() < epoch || self.copy.is_some() {
            return;
        }
        self.context.checkpoint.set(epoch);
        let directory = self.checkpoints.join(epoch.to_string());
        CrashPoint::BeforeStateCopy.pass();
        self.context.flush_waiting(Some(epoch));
        if let Err(error) = self.context.flush_errors() {
            self.tell(epoch, Err(error));
            return;
        }
        let (copier, worker) = (self.context.store.copier(), std::thread::current());
        let (maker, made) = channel();
        let thread = std::thread::Builder::new().name(format!("copy-{}", self.context.index)).spawn(move || {
            let copied = copier.copy(&directory).map(|()| directory);
            // Before a worker that stops can think that the database is closed.
            drop(copier);
            let _ = maker.send(copied);
            worker.unpark();
        });
        match thread {
            Ok(_) => self.copy = Some(Copy { epoch, made }),
            Err(error) => self.tell(epoch, Err(self.not_copied(error))),
        }
    }

    /// Hands the copy over once it has been made.
    fn end_copy(&mut self) {
        let Some(Copy { epoch, made }) = &self.copy else { return };
        let (epoch, made) = match made.try_recv() {
            Ok(made) => (*epoch, made),
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => (*epoch, Err(self.not_copied(std::io::Error::other("the thread has panicked")))),
        };
        CrashPoint::AfterStateCopy.pass();
        self.copy = None;
        self.tell(epoch, made);
    }

    fn not_copied(&self, source: std::io::Error) -> StorageError {
        StorageError::File { action: "copy the state to", path: self.checkpoints.display().to_string(), source }
    }

    fn tell(&self, epoch: Epoch, directory: StorageResult<PathBuf>) {
        let _ = self.flushed.send(Flushed { worker: self.context.index, epoch, directory });
    }

    fn clean_up(&mut self) {
        for id in self.context.gone.borrow_mut().drain(..) {
            self.alive.remove(&id);
        }
        let alive = &self.alive;
        let (context, checkpoint_running) = (&self.context, self.context.shared.clock.checkpoint_running());
        self.dropping.retain(|(id, done)| {
            // State must not change under a checkpoint that is being made.
            if alive.contains(id) || checkpoint_running {
                return true;
            }
            drop_state(context, *id);
            let _ = done.send(());
            false
        });
    }
}

/// Deletes a dropped job's state. What could not be deleted goes at the next start.
fn drop_state(context: &WorkerContext, id: ObjectId) {
    if let Err(error) = context.drop_job(id) {
        tracing::error!(job = id.0, error = super::adapter::chain(&error), "could not drop a job's state");
    }
}
