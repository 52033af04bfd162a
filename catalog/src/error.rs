//! The error that a user reads: a SQLSTATE, a message, and where known a position, a detail and a hint.

use std::fmt;

/// Declares the SQLSTATEs in use, each once, with its five characters.
macro_rules! sql_states {
    ($($(#[$doc:meta])* $name:ident = $code:literal,)*) => {
        /// A Postgres error class; see appendix A of the Postgres manual.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs)]
        pub enum SqlState { $($(#[$doc])* $name,)* }

        impl SqlState {
            /// The five characters that go over the wire.
            pub fn code(self) -> &'static str {
                match self { $(SqlState::$name => $code,)* }
            }

            /// The state with these five characters, if it is one of ours.
            pub fn from_code(code: &str) -> Option<SqlState> {
                match code { $($code => Some(SqlState::$name),)* _ => None }
            }
        }
    };
}

sql_states! {
    SuccessfulCompletion = "00000",
    Warning = "01000",
    NoData = "02000",
    ConnectionException = "08000",
    ConnectionFailure = "08006",
    ProtocolViolation = "08P01",
    FeatureNotSupported = "0A000",
    CardinalityViolation = "21000",
    DataException = "22000",
    StringDataRightTruncation = "22001",
    NumericValueOutOfRange = "22003",
    InvalidDatetimeFormat = "22007",
    DatetimeFieldOverflow = "22008",
    InvalidTimeZoneDisplacement = "22009",
    DivisionByZero = "22012",
    InvalidParameterValue = "22023",
    CharacterNotInRepertoire = "22021",
    UntranslatableCharacter = "22P05",
    SubstringError = "22011",
    InvalidArgumentForLogarithm = "2201E",
    InvalidArgumentForPower = "2201F",
    InvalidRowCountInLimit = "2201W",
    InvalidRowCountInOffset = "2201X",
    StringDataLengthMismatch = "22026",
    InvalidXmlContent = "2200N",
    InvalidTextRepresentation = "22P02",
    InvalidBinaryRepresentation = "22P03",
    BadCopyFileFormat = "22P04",
    NotNullViolation = "23502",
    ForeignKeyViolation = "23503",
    UniqueViolation = "23505",
    CheckViolation = "23514",
    InvalidCursorState = "24000",
    InvalidTransactionState = "25000",
    ActiveSqlTransaction = "25001",
    ReadOnlySqlTransaction = "25006",
    NoActiveSqlTransaction = "25P01",
    InFailedSqlTransaction = "25P02",
    InvalidSqlStatementName = "26000",
    InvalidAuthorizationSpecification = "28000",
    InvalidPassword = "28P01",
    DependentObjectsStillExist = "2BP01",
    InvalidGrantor = "0L000",
    InvalidGrantOperation = "0LP01",
    InvalidRoleSpecification = "0P000",
    PrivilegeNotGranted = "01007",
    PrivilegeNotRevoked = "01006",
    DependentPrivilegeDescriptorsStillExist = "2B000",
    ReservedName = "42939",
    InvalidCursorName = "34000",
    InvalidSavepoint = "3B001",
    CantChangeRuntimeParam = "55P02",
    LockNotAvailable = "55P03",
    InvalidCatalogName = "3D000",
    InvalidSchemaName = "3F000",
    SerializationFailure = "40001",
    DeadlockDetected = "40P01",
    SyntaxError = "42601",
    InsufficientPrivilege = "42501",
    CannotCoerce = "42846",
    GroupingError = "42803",
    DatatypeMismatch = "42804",
    WrongObjectType = "42809",
    UndefinedColumn = "42703",
    UndefinedFunction = "42883",
    UndefinedTable = "42P01",
    UndefinedParameter = "42P02",
    UndefinedObject = "42704",
    DuplicateColumn = "42701",
    DuplicateCursor = "42P03",
    DuplicateDatabase = "42P04",
    DuplicatePreparedStatement = "42P05",
    DuplicateSchema = "42P06",
    DuplicateTable = "42P07",
    DuplicateAlias = "42712",
    DuplicateObject = "42710",
    AmbiguousColumn = "42702",
    AmbiguousFunction = "42725",
    InvalidColumnReference = "42P10",
    InvalidTableDefinition = "42P16",
    IndeterminateDatatype = "42P18",
    InvalidObjectDefinition = "42P17",
    InvalidName = "42602",
    NameTooLong = "42622",
    InsufficientResources = "53000",
    DiskFull = "53100",
    OutOfMemory = "53200",
    TooManyConnections = "53300",
    ProgramLimitExceeded = "54000",
    StatementTooComplex = "54001",
    ObjectNotInPrerequisiteState = "55000",
    ObjectInUse = "55006",
    OperatorIntervention = "57000",
    QueryCanceled = "57014",
    AdminShutdown = "57P01",
    CannotConnectNow = "57P03",
    SystemError = "58000",
    UndefinedFile = "58P01",
    IoError = "58030",
    ConfigFileError = "F0000",
    InternalError = "XX000",
    DataCorrupted = "XX001",
}

/// What a user is told when a statement fails.
///
/// `message` is lowercase without a full stop; `detail` and `hint` are full sentences, the hint an action.
/// The parts are joined only where the answer is built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqlError {
    /// The error class.
    pub state: SqlState,
    /// What was being tried, with the kind and the quoted name of the object.
    pub message: String,
    /// More facts.
    pub detail: Option<String>,
    /// What the user can do.
    pub hint: Option<String>,
    /// Where in the statement's text, in characters from 1.
    pub position: Option<usize>,
    /// Which object broke a rule, for programs that branch on it.
    pub object: Option<Box<ErrorObject>>,
}

/// The object that an error is about, by the names that programs look it up by.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ErrorObject {
    /// The schema of the relation.
    pub schema: String,
    /// The relation.
    pub table: String,
    /// The column, if it is about one.
    pub column: Option<String>,
    /// The constraint, if it has a name.
    pub constraint: Option<String>,
}

/// The result of whatever can fail with a [`SqlError`].
pub type SqlResult<T> = Result<T, SqlError>;

impl SqlError {
    /// An error of this class with this message.
    pub fn new(state: SqlState, message: impl Into<String>) -> SqlError {
        SqlError { state, message: message.into(), detail: None, hint: None, position: None, object: None }
    }

    /// `0A000`: something that is understood but not there.
    pub fn unsupported(message: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::FeatureNotSupported, message)
    }

    /// `42601`: the text is no statement.
    pub fn syntax(message: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::SyntaxError, message)
    }

    /// `22023`: an option or a setting with a value that it can't have.
    pub fn invalid_parameter(message: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::InvalidParameterValue, message)
    }

    /// `XX000`: a fault of ours.
    pub fn internal(message: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::InternalError, message)
    }

    /// The same with more facts.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> SqlError {
        self.detail = Some(detail.into());
        self
    }

    /// The same with advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> SqlError {
        self.hint = Some(hint.into());
        self
    }

    /// The same with the object that it is about.
    #[must_use]
    pub fn about(mut self, object: ErrorObject) -> SqlError {
        self.object = Some(Box::new(object));
        self
    }

    /// The same with a place in the text, in characters from 1.
    #[must_use]
    pub fn at(mut self, position: usize) -> SqlError {
        self.position = Some(position);
        self
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SqlError {}
