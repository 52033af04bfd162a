import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

/** pgjdbc: connects, creates, inserts, reads; prepared until the driver goes binary, in batches, with metadata. */
public final class Check {
    private static void equal(Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    private static void refused(String state, Statement statement, String sql) {
        try {
            statement.execute(sql);
        } catch (SQLException error) {
            equal(state, error.getSQLState());
            return;
        }
        throw new AssertionError(sql + " was not refused");
    }

    public static void main(String[] arguments) throws SQLException {
        String url = "jdbc:postgresql://" + arguments[0] + ":" + arguments[1] + "/thalweg";
        Properties properties = new Properties();
        properties.setProperty("user", "java");
        // Named statements and binary results from the second use on.
        properties.setProperty("prepareThreshold", "2");
        try (Connection connection = DriverManager.getConnection(url, properties); Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS java_orders CASCADE");
            statement.execute("CREATE TABLE java_orders (id bigint PRIMARY KEY, customer text, amount numeric(10, 2), at timestamp, paid boolean)");
            statement.execute("CREATE MATERIALIZED VIEW java_totals AS SELECT customer, count(*) AS n, sum(id) AS ids FROM java_orders GROUP BY customer");
            write(connection);
            read(connection);
            metadata(connection);
            refused("42P01", statement, "SELECT * FROM nosuch");
            refused("42703", statement, "SELECT nosuch FROM java_orders");
            refused("23505", statement, "INSERT INTO java_orders (id) VALUES (1)");
            fetchByParts(connection);
            statement.execute("DROP TABLE java_orders CASCADE");
        }
        System.out.println("pgjdbc " + DriverManager.getDriver(url).getMajorVersion() + "." + DriverManager.getDriver(url).getMinorVersion() + " ok");
    }

    private static void write(Connection connection) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO java_orders VALUES (?, ?, ?, ?, ?)")) {
            for (long id = 1; id <= 10; id++) {
                insert.setLong(1, id);
                insert.setString(2, id % 2 == 0 ? "ann" : "bob");
                insert.setBigDecimal(3, new BigDecimal("1.25").multiply(BigDecimal.valueOf(id)));
                insert.setTimestamp(4, Timestamp.valueOf("2024-01-31 12:00:00.5"));
                insert.setBoolean(5, id > 5);
                insert.addBatch();
            }
            equal(10, insert.executeBatch().length);
        }
    }

    private static void read(Connection connection) throws SQLException {
        try (PreparedStatement select = connection.prepareStatement("SELECT id, customer, amount, at, paid FROM java_orders WHERE id = ?")) {
            for (long id = 1; id <= 6; id++) {
                select.setLong(1, id);
                try (ResultSet rows = select.executeQuery()) {
                    equal(true, rows.next());
                    equal(id, rows.getLong("id"));
                    equal(id % 2 == 0 ? "ann" : "bob", rows.getString(2));
                    equal(0, new BigDecimal("1.25").multiply(BigDecimal.valueOf(id)).compareTo(rows.getBigDecimal(3)));
                    equal(Timestamp.valueOf("2024-01-31 12:00:00.5"), rows.getTimestamp(4));
                    equal(id > 5, rows.getBoolean(5));
                    equal(false, rows.next());
                }
            }
        }
        try (PreparedStatement select = connection.prepareStatement("SELECT n FROM java_totals WHERE customer = ?")) {
            select.setString(1, "ann");
            try (ResultSet rows = select.executeQuery()) {
                equal(true, rows.next());
                equal(5L, rows.getLong(1));
            }
        }
    }

    private static void metadata(Connection connection) throws SQLException {
        DatabaseMetaData metadata = connection.getMetaData();
        List<String> columns = new ArrayList<>();
        try (ResultSet rows = metadata.getColumns(null, "public", "java_orders", null)) {
            while (rows.next()) {
                columns.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME"));
            }
        }
        equal(List.of("id int8", "customer text", "amount numeric", "at timestamp", "paid bool"), columns);
        List<String> tables = new ArrayList<>();
        try (ResultSet rows = metadata.getTables(null, "public", "java_%", new String[] {"TABLE", "MATERIALIZED VIEW"})) {
            while (rows.next()) {
                tables.add(rows.getString("TABLE_NAME") + " " + rows.getString("TABLE_TYPE"));
            }
        }
        tables.sort(null);
        equal(List.of("java_orders TABLE", "java_totals MATERIALIZED VIEW"), tables);
        try (ResultSet rows = metadata.getPrimaryKeys(null, "public", "java_orders")) {
            equal(true, rows.next());
            equal("id", rows.getString("COLUMN_NAME"));
        }
    }

    private static void fetchByParts(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (PreparedStatement select = connection.prepareStatement("SELECT id FROM java_orders ORDER BY id")) {
            select.setFetchSize(3);
            long count = 0;
            try (ResultSet rows = select.executeQuery()) {
                while (rows.next()) {
                    equal(++count, rows.getLong(1));
                }
            }
            equal(10L, count);
        }
        connection.commit();
        connection.setAutoCommit(true);
    }
}
