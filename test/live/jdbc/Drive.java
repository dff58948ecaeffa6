/* What a Java application does, through the JDBC driver. Prints one line for each step. */

import java.io.StringReader;
import java.io.StringWriter;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

public class Drive {
	private static Connection connection;

	private static String value(String sql) throws SQLException {
		try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
			rows.next();
			return rows.getString(1);
		}
	}

	private static void transaction() throws SQLException {
		connection.setAutoCommit(false);
		value("insert into t values (1) returning x");
		connection.rollback();
		value("insert into t values (2) returning x");
		connection.commit();
		connection.setAutoCommit(true);
		System.out.println("transaction " + value("select count(*) from t"));
	}

	private static void prepared() throws SQLException {
		int sum = 0;
		/* prepareThreshold is 5: from there on the statement has a name on the server. */
		try (PreparedStatement statement = connection.prepareStatement("select ?::int * 10")) {
			for (int n = 0; n < 20; n++) {
				statement.setInt(1, n);
				try (ResultSet rows = statement.executeQuery()) {
					rows.next();
					sum += rows.getInt(1);
				}
			}
			System.out.println("metadata " + statement.getMetaData().getColumnCount());
		}
		System.out.println("prepared " + sum);
	}

	private static void batch() throws SQLException {
		try (PreparedStatement statement = connection.prepareStatement("insert into ins values (?)")) {
			for (int n = 0; n < 100; n++) {
				statement.setInt(1, n);
				statement.addBatch();
			}
			System.out.println("batch " + statement.executeBatch().length);
		}
	}

	private static void cursor() throws SQLException {
		connection.setAutoCommit(false);
		int count = 0;
		try (Statement statement = connection.createStatement()) {
			statement.setFetchSize(10);
			try (ResultSet rows = statement.executeQuery("select generate_series(1, 100)")) {
				while (rows.next())
					count++;
			}
		}
		connection.commit();
		connection.setAutoCommit(true);
		System.out.println("cursor " + count);
	}

	private static void error() throws SQLException {
		try {
			value("select 1/0");
		} catch (SQLException failure) {
			System.out.println("error " + failure.getSQLState());
		}
	}

	private static void cancel() throws Exception {
		try (Statement statement = connection.createStatement()) {
			statement.setQueryTimeout(1);
			statement.execute("select pg_sleep(30)");
		} catch (SQLException failure) {
			System.out.println("cancel " + failure.getSQLState());
		}
	}

	private static void copy() throws Exception {
		CopyManager copies = connection.unwrap(PGConnection.class).getCopyAPI();
		long count = copies.copyIn("copy ct from stdin", new StringReader("1\tone\n2\ttwo\n"));
		StringWriter out = new StringWriter();
		copies.copyOut("copy ct to stdout", out);
		System.out.println("copy " + count + " " + out.toString().length());
	}

	public static void main(String[] args) throws Exception {
		connection = DriverManager.getConnection(args[0], args[1], args[2]);
		System.out.println("query " + value("select 6 * 7"));
		transaction();
		prepared();
		batch();
		cursor();
		error();
		cancel();
		copy();
		System.out.println("end " + value("select 1"));
		connection.close();
	}
}
