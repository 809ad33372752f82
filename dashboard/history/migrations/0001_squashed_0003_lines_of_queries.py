from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('history', '0001_series_blocks_and_annotations'), ('history', '0002_annotations_of_teams'), ('history', '0003_lines_of_queries')]

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Block',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('grain_s', models.PositiveSmallIntegerField()),
                ('shard', models.PositiveIntegerField()),
                ('begins_s', models.BigIntegerField()),
                ('payload', models.BinaryField()),
            ],
            options={
                'indexes': [models.Index(fields=['grain_s', 'begins_s'], name='history_blo_grain_s_cabecf_idx')],
                'constraints': [models.UniqueConstraint(fields=('grain_s', 'shard', 'begins_s'), name='one_block_a_shard_and_time')],
            },
        ),
        migrations.CreateModel(
            name='SeriesRow',
            fields=[
                ('id', models.AutoField(primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=10)),
                ('subject', models.CharField(max_length=210)),
                ('metric', models.CharField(max_length=40)),
                ('seen_s', models.BigIntegerField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('kind', 'subject', 'metric'), name='one_row_a_series')],
            },
        ),
        migrations.CreateModel(
            name='AnnotationRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at_s', models.BigIntegerField(db_index=True)),
                ('what', models.CharField(max_length=20)),
                ('kind', models.CharField(max_length=10)),
                ('subject', models.CharField(max_length=210)),
                ('text', models.CharField(blank=True, max_length=500)),
                ('team', models.CharField(blank=True, max_length=40)),
            ],
            options={
                'ordering': ['at_s', 'what', 'kind', 'subject'],
                'constraints': [models.UniqueConstraint(fields=('kind', 'subject', 'at_s', 'what', 'text'), name='one_row_an_annotation')],
            },
        ),
        migrations.CreateModel(
            name='QueryLine',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('query', models.CharField(max_length=100)),
                ('former', models.CharField(db_index=True, max_length=100)),
                ('distance', models.PositiveSmallIntegerField()),
                ('is_main', models.BooleanField()),
                ('at_s', models.BigIntegerField(db_index=True)),
            ],
            options={
                'ordering': ['query', 'distance', 'former'],
                'constraints': [models.UniqueConstraint(fields=('query', 'former'), name='one_row_a_former_query')],
            },
        ),
    ]
